"""Lists, code and tables as GitHub reads them, written as the site reads them."""

from __future__ import annotations

import pytest
from commonmark import for_site


@pytest.mark.parametrize(
    ("page", "site"),
    [
        ("a\n- b\n- c", "a\n\n- b\n- c"),
        ("1. a\n   b\n\n   c\n2. d", "1. a\n    b\n\n    c\n\n2. d"),
        (
            "1. a\n\n   ```sh\n   b\n     c\n   ```\n",
            "1. a\n\n    ```sh\n    b\n      c\n    ```\n",
        ),
        (
            "1. a\n\n       code\n       - of it\n2. b",
            "1. a\n\n        code\n        - of it\n2. b",
        ),
        ("- a\n  - b\n    c\n- d", "- a\n    - b\n        c\n- d"),
        ("- a\n\nb", "- a\n\nb"),
        ("port\n31998. b", "port\n31998. b"),
        ("a\n\n    code\n    - of it\n\nb", "a\n\n    code\n    - of it\n\nb"),
        ("a\n| b |\n|---|\n| c |", "a\n\n| b |\n|---|\n| c |"),
        ("```text\n- a\n  - b\n```", "```text\n- a\n  - b\n```"),
    ],
)
def test_pages(page: str, site: str) -> None:
    assert for_site(page) == site
