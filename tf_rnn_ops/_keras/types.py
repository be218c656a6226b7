"""Type aliases for the arguments of layers."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import keras

# An object, its name or its config.
Activation: TypeAlias = str | Callable[..., Any] | None
Initializer: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | keras.initializers.Initializer
Regularizer: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | keras.regularizers.Regularizer | None
Constraint: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | keras.constraints.Constraint | None
