# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors as the OpenAI API words them: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiError(Exception):
    """A request this server refuses. ``status`` is the HTTP status; ``param`` the field at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code

    def response(self) -> web.Response:
        body = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return web.json_response({"error": body}, status=self.status)


def require_model(asked: object, served: str) -> None:
    """Refuse a model that is not served here (404, as vLLM and OpenAI do), so that a wrong
    configuration is seen at once."""
    if asked is None:
        raise ApiError(400, "you must provide a model parameter", param="model")
    if asked != served:
        raise ApiError(
            404,
            f"the model {asked!r} does not exist here; this endpoint serves {served!r}",
            param="model",
            code="model_not_found",
        )


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every failure into the OpenAI shape, aiohttp's own 404/405/413 included."""
    try:
        return await handler(request)
    except ApiError as error:
        return error.response()
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return ApiError(error.status, error.reason).response()
    except Exception:
        log.exception("unexpected failure on %s", request.path)
        return ApiError(500, "internal error; see the server's log", kind="server_error").response()
