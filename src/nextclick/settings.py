"""What every component's settings have in common."""

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator


class Settings(BaseModel):
    """Settings of a component: frozen, and unknown keys are refused.

    TOML has no word for nothing; where a setting may be `None`, a file says `"none"`.

    Examples
    --------
    >>> class Example(Settings):
    ...     size: int | None = 3
    >>> Example(size=4)
    Example(size=4)
    >>> Example(size="none")
    Example(size=None)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _nothing(cls, value: Any) -> Any:
        return None if isinstance(value, str) and value == "none" else value
