import io

from diffusion_worker.offline.progress import Progress


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_it_says_what_is_done_how_fast_and_how_long_it_will_take() -> None:
    clock = Clock()
    progress = Progress(total=10, done_before=2, out=io.StringIO(), clock=clock)
    for failed in (False, True):
        clock.seconds += 30
        progress.count(tokens=600, failed=failed)
    assert progress.line() == "4 of 10 done, 1 failed, 20 tokens/s, about 3m00s left"


def test_a_log_gets_a_line_now_and_then() -> None:
    clock, out = Clock(), io.StringIO()
    progress = Progress(total=100, out=out, clock=clock)
    for _ in range(100):
        clock.seconds += 1
        progress.count(tokens=1, failed=False)
    progress.finish()
    lines = out.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[-1] == "100 of 100 done, 1 tokens/s"
    assert "\r" not in out.getvalue()


def test_nothing_left_to_do_is_said_too() -> None:
    out = io.StringIO()
    Progress(total=3, done_before=3, out=out, clock=Clock()).finish()
    assert out.getvalue() == "3 of 3 are done already\n3 of 3 done\n"
