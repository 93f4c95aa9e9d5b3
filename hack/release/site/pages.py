"""Which files outside of docs/ are pages of the site, and where it has them."""

from __future__ import annotations

ELSEWHERE = {
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "SUPPORT.md": "project/support.md",
    "charts/peercache/README.md": "reference/chart.md",
    "dataplane/python/README.md": "reference/python.md",
    "hack/release/images/README.md": "project/images.md",
}
