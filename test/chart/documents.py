"""Reads YAML documents from standard input, writes them as one JSON list."""
import json
import sys

import yaml

json.dump([document for document in yaml.safe_load_all(sys.stdin) if document], sys.stdout)
