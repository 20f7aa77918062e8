"""Loads a trace file as a viewer does and prints its spans, a line each: name, status, bytes, trace id."""
import json
import sys

with open(sys.argv[1], encoding='utf-8') as file:
    trace = json.load(file)
last_end = {}
for event in trace['traceEvents']:
    assert event['ph'] == 'X' and event['cat'] == 'kvc', event
    assert event['dur'] >= 0 and event['ts'] > 0 and event['pid'] > 0 and event['tid'] > 0, event
    print(event['name'].replace(' ', '_'), event['args']['status'], event['args']['bytes'], event['args'].get('trace', '-'))
