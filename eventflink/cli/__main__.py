"""`python -m eventflink.cli`, which is how `up` starts its children."""

from eventflink.cli.main import main

main()
