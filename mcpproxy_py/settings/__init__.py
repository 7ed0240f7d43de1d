"""The only reader of environment and files: one configuration, frozen, from defaults, file, variables and flags."""

from mcpproxy_py.settings.changes import compared, loosened, needs_restart
from mcpproxy_py.settings.config_file import ConfigFile, TextChange
from mcpproxy_py.settings.data_dir import (
    check_data_dir,
    ensure_data_dir,
    load_or_create_key,
    load_or_create_seal,
    login_key_place,
    login_keys,
    nearest_there_is,
    rotate_key,
)
from mcpproxy_py.settings.loader import (
    CONFIG_NAME,
    DEFAULT_DATA_DIR,
    Loaded,
    TextCheck,
    check_text,
    fingerprint,
    load,
    settings_of_text,
    validate_text,
)
from mcpproxy_py.settings.masking import shown
from mcpproxy_py.settings.models import Activity, IntentDeclaration, Limits, Log, Settings, check_doors
from mcpproxy_py.settings.reference_page import json_schema
from mcpproxy_py.settings.servers import OverrideEntry, ProviderSettings, ServerSettings, UpstreamSettings, check_name

__all__ = [
    "CONFIG_NAME",
    "DEFAULT_DATA_DIR",
    "Activity",
    "ConfigFile",
    "IntentDeclaration",
    "Limits",
    "Loaded",
    "Log",
    "OverrideEntry",
    "ProviderSettings",
    "ServerSettings",
    "Settings",
    "TextChange",
    "TextCheck",
    "UpstreamSettings",
    "check_data_dir",
    "check_doors",
    "check_name",
    "check_text",
    "compared",
    "ensure_data_dir",
    "fingerprint",
    "json_schema",
    "load",
    "load_or_create_key",
    "load_or_create_seal",
    "login_key_place",
    "login_keys",
    "loosened",
    "nearest_there_is",
    "needs_restart",
    "rotate_key",
    "settings_of_text",
    "shown",
    "validate_text",
]
