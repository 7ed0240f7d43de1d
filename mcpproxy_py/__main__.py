from __future__ import annotations

from mcpproxy_py.cli.main import main

if __name__ == "__main__":
    main()
