"""The type float64."""

from __future__ import annotations

from sluice.model.types.type_contract import Distance, TimeForm, Type, Value

#: the texts of the values that are no numbers of YAML and JSON
NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class Float64Type(Type):
    """Floating-point numbers of 64 bits (IEEE 754), with NaN and the infinities."""

    word = "float64"
    aliases = ("double", "float")
    foreign = ("float32", "real", "number")
    empty = 0.0
    samples = (1.0, 2.0)
    numeric = True
    sortable = True
    doubt_as_key = "a float64 as key: 0.1 + 0.2 is not 0.3, and NaN is not even itself (rule A9)"
    time = TimeForm.SECONDS
    distance = Distance("float64")

    def of_number(self, value: Value) -> Value:
        assert isinstance(value, int | float | str)  # noqa: S101 - a number or its text
        return float(value)

    def from_file(self, value: object) -> Value:
        if isinstance(value, bool) or not (isinstance(value, int | float) or value in NOT_FINITE):
            raise ValueError(value)
        try:
            return float(value)
        except OverflowError as error:
            raise ValueError(value) from error

    from_definition = of_number


FLOAT64 = Float64Type()
