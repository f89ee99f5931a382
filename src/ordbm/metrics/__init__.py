"""How good predictions and lists are: functions on arrays."""
