"""What a text in one of LSF's small languages got wrong."""

from typing import ClassVar

from xce.model.dependency import Subject
from xce.model.errors import TextError


class LanguageError(TextError):
    """A text in one of LSF's small languages cannot be read or cannot be honoured.

    ``lsf`` is LSF's own text without the final stop, empty where LSF has none; ``expected`` says
    what could have stood at ``column``; ``word`` is the part of the text that it is about.
    """

    LSF: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        column: int = 0,
        expected: str = "",
        word: str = "",
        lsf: str | None = None,
    ) -> None:
        super().__init__(message, text=text, column=column)
        self.expected = expected
        self.word = word
        self.lsf = self.LSF if lsf is None else lsf


class ResreqError(LanguageError):
    """A resource requirement cannot be read, or names what does not exist."""

    LSF = "Bad resource requirement syntax"


class NotBuiltError(ResreqError):
    """A text is right, but asks for what this release does not honour yet."""

    LSF = ""


class DependencySyntaxError(LanguageError):
    """A dependency condition cannot be read."""

    LSF = "Dependency condition syntax error"


class UnknownJobError(LanguageError):
    """A dependency condition names a job that does not exist."""

    LSF = "No matching job found"

    def __init__(self, subject: Subject) -> None:
        name = f'"{subject.name}"' if subject.name else str(subject.job)
        super().__init__(f"no job {name} is known")
        self.subject = subject


class JobNameError(LanguageError):
    """A job name with its index list cannot be read."""

    LSF = "Bad job name"


class JobRefError(LanguageError):
    """A text like ``12`` or ``12[3]`` names no job."""

    LSF = "Illegal job ID"


class HostListError(LanguageError):
    """A host list of ``-m`` cannot be read."""

    LSF = "Bad host specification"
