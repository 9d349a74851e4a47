import io

from xce.cli.xce.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_is_refreshed() -> None:
    stream = Terminal()
    progress = Progress(stream)
    for text in ("1 of 2", "1 of 2", "2 of 2"):
        progress.show(text)
    progress.close()
    assert stream.getvalue() == "\r\x1b[K1 of 2\r\x1b[K2 of 2\n"


def test_elsewhere_lines_are_few_and_the_last_is_always_written() -> None:
    stream = io.StringIO()
    progress = Progress(stream, every_s=1000)
    for text in ("1", "2", "3"):
        progress.show(text)
    progress.show("2", at_once=True)
    progress.close("3")
    progress.close("3")
    assert stream.getvalue() == "2\n3\n"
