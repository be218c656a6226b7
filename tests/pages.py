"""What the README and the pages in docs/ show, to be run as it stands."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def code_of(page: str, language: str) -> str:
    """Returns the blocks of code of a page, given by its path in the repository, one after the other."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks, f"{page} has no code in {language}"
    return "\n".join(blocks)
