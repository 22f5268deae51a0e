"""What other paths of elephants would do: advice, as adapters set no paths."""
