# SPDX-License-Identifier: GPL-3.0-or-later
"""The release provider: a Buildroot external tree, and what proves it without building (docs/image.md)."""
