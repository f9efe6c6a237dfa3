# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in model servers: speech recognition, speech synthesis and a scripted language model.

One process, one port on 127.0.0.1, the OpenAI HTTP protocols. They stand where a user has a Whisper
server, Kokoro and vLLM: the recognition and the voice are real, only the language model is a script.
Run ``python -m voice_edge_standins --help``.
"""
