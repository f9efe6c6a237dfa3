#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Buildroot calls this with the root tree before it packs it: the finish is the one that every provider shares.
set -eu
cd "$BR2_EXTERNAL_VOICE_EDGE_PATH/../.."
# Not the python3 on the PATH: Buildroot puts its own there, which lacks what it did not need itself.
exec "${VOICE_EDGE_PYTHON:-/usr/bin/python3}" -m image.buildroot.board post-build "$1" "$BINARIES_DIR"
