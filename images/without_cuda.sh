#!/bin/sh
# Makes PyPI's CUDA build of torch importable without NVIDIA's libraries, which a CPU image would carry for nothing (3 GB).
# usage: without_cuda.sh SITE_PACKAGES   (needs binutils; nvidia-cuda-runtime stays, so that torch sees "no driver")
#
# torch links against cuBLAS, cuDNN, NCCL and others, and the loader wants each file to be there with its versioned symbols.
# One small library stands in for all of them: every function it has returns 1, which is a failure in all these APIs.
set -eu

site=$1
lib=$site/nvidia/cu13/lib
work=$(mktemp -d)

# "symbol version" (or "symbol" alone) of everything that torch wants from them
nm -D --undefined-only -f posix "$site"/torch/lib/*.so |
  sed -nE 's/^((cu|nccl|nvrtc|nvshmem|nvJitLink)[A-Za-z_0-9]*)(@*([^ ]*))? .*/\1 \4/p' |
  grep -v libcudart | sort -u > "$work/wanted"

awk 'BEGIN { print ".text" }
     { print ".globl " $1 "\n.type " $1 ",@function\n" $1 ":" }
     END { print "mov $1, %eax\nret\n.section .note.GNU-stack,\"\",@progbits" }' "$work/wanted" > "$work/absent.s"
awk 'NF == 2 { symbols[$2] = symbols[$2] " " $1 ";" }
     END { for (version in symbols) print version " { global:" symbols[version] " };" }' "$work/wanted" > "$work/absent.map"
as -o "$work/absent.o" "$work/absent.s"
ld -shared --version-script "$work/absent.map" -o "$lib/libcuda-absent.so" "$work/absent.o"

readelf -d "$site"/torch/lib/*.so |
  sed -nE 's/.*NEEDED.*\[(lib(cu|nccl|nvrtc|nvshmem|nvJitLink)[^]]*)\]/\1/p' | grep -v '^libcuda\.so' | sort -u |
  while read -r name; do
    [ -e "$lib/$name" ] || ln -s libcuda-absent.so "$lib/$name"
  done
rm -r "$work"
