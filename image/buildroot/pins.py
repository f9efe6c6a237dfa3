# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Buildroot: upstream's long-term release, by tag, commit and content."""

TAG = "2025.02.16"
COMMIT = "135af563b945b8c3d18f8fd370370075b9edb140"
TREE = "b63f91532701a0c721231e508e1f34e351067c08"
"""git's hash of the commit's files: tells an unpacked archive or a changed checkout, where a commit id would not."""
UPSTREAM = "https://gitlab.com/buildroot.org/buildroot.git"
