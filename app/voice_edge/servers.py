# SPDX-License-Identifier: GPL-3.0-or-later
"""The model servers of the settings, each kind with those that stand in for it."""

from __future__ import annotations

import dataclasses

from .adapters import LlmClient, LlmPool, SttClient, SttPool, TtsClient, TtsPool
from .machine import Policy
from .machine.tools import described
from .settings import Llm, Settings, Stt, Tts


def llms(of: Llm) -> list[Llm]:
    """The server and its backups, each as a server of its own."""
    backups = [
        dataclasses.replace(
            of, url=b.url, model=b.model or of.model, api_key_file=b.api_key_file, backup=()
        )
        for b in of.backup
    ]
    return [of, *backups]


def ttss(of: Tts) -> list[Tts]:
    backups = [
        dataclasses.replace(
            of,
            url=b.url,
            model=b.model or of.model,
            voice=b.voice or of.voice,
            api_key_file=b.api_key_file,
            backup=(),
        )
        for b in of.backup
    ]
    return [of, *backups]


def stts(of: Stt) -> list[Stt]:
    backups = [
        dataclasses.replace(
            of, url=b.url, model=b.model or of.model, api_key_file=b.api_key_file, backup=()
        )
        for b in of.backup
    ]
    return [of, *backups]


def pools(settings: Settings) -> tuple[LlmPool, TtsPool, SttPool]:
    agent = settings.agent
    policy = Policy.of(settings)
    tools = described(policy.may_hang_up, policy.destinations)
    return (
        LlmPool(
            [LlmClient(s, tools) for s in llms(settings.llm)],
            settings.llm.failover_s,
            agent.continue_prompt,
        ),
        TtsPool([TtsClient(s) for s in ttss(settings.tts)], settings.tts.failover_s),
        SttPool(
            [SttClient(s, agent.language) for s in stts(settings.stt)], settings.stt.failover_s
        ),
    )
