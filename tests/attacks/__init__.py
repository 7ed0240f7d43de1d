"""Attacks on a running gateway; first of all on its choke point (SPEC GATE-14, GATE-15, SURF-10).

Nothing leaves for a server unless, in the same turn of the event loop, it was decided on the current snapshot and its
ask was accepted by the record; and what leaves is exactly what was decided, recorded and shown. A decision cannot prove
that, so these tests look from outside: a gateway in a process of its own, clients of both eras on raw wires, and real
servers that write down every message they hear (`tests/servers/heard.py`). What a test claims, it reads in the server's
own log, and in the record.

They import nothing of `mcpproxy_py`, so that they hold whatever it looks like inside.

    test_choke_point_rounds       a state is spent once, also over replicas; each round is on record, or is not sent
    test_choke_point_queues       what was forbidden while a call waited for its turn is not sent when the turn comes
    test_choke_point_reload       an edit that opens a door and forbids a tool leaves no moment in between
    test_choke_point_relays       requests that are no tool calls: decided, confirmed and recorded like those
    test_choke_point_meta         what may travel beside the arguments, and nothing else
    test_choke_point_extensions   a server hears only of extensions that the surface can serve to the end
    test_choke_point_departures   a client that goes, at every step of a call
    test_http_edges               what a request is, whose page it comes from, who may read what; the private socket
    test_slow_clients             deadlines, and places for connections
    test_shares                   what one principal may have for itself, and what is left for the others
    test_fuzz_finds               what fuzzing broke (`tests/fuzz`), at a running gateway
    test_held_*                   what held before anything was mended, and has to go on holding (README.md)
    test_late_questions           what a cancelled call still asks is put to nobody, and its session is not used again
    test_resource_owners          the first server that names a resource keeps it, and none is crowded out
    test_forged_own_keys          what only the gateway says comes from nobody else
    test_secrets_everywhere       secrets of every field are in nothing that leaves for a record or a log

None of them sleeps. That something never reaches a server is shown by something that does, later and the same way: a
read on the same connection, or the end of the call itself.
"""
