
export -p > "$WORLD/$MACHINE.env"
