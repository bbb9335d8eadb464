"""What every component's settings have in common."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Settings of a component: frozen, and unknown keys are refused.

    Examples
    --------
    >>> class Example(Settings):
    ...     size: int = 3
    >>> Example(size=4)
    Example(size=4)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
