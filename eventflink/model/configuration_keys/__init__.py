"""The keys of the configuration, by what they are about; `model/configuration.py` puts them together."""
