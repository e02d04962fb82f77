"""What a checkpoint is, read from `config.json` and the headers of its safetensors files: no weights, no torch.

`facts` is what workers and the operator share; `config`, `headers` and `weights` read text and bytes that they are
given; `folder` and `hub` fetch those from a disk or the hub; `source` picks between them.
"""
