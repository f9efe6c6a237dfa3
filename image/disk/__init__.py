# SPDX-License-Identifier: GPL-3.0-or-later
"""Slot images, boot flow and disk: the same for every provider and both architectures."""
