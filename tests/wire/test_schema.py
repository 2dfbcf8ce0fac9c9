#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
tools/fields compares the schemas and manual pages of the document with the program's tables of fields. Also:
tools/fields reports a field, or a fact about one, that is missing on either side, and --write corrects the
documents.
"""

import copy
import importlib.machinery
import importlib.util
import json
import os
import shutil
import sys
import tempfile

import target
from tap import Tap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
DOCS = os.path.join(ROOT, 'docs')
FILES = ('config-schema.json', 'openapi.json', 'man/weft.json.5', 'man/weft-ctl.1')


def tool():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader('fields', os.path.join(ROOT, 'tools', 'fields'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('fields', loader))
    loader.exec_module(module)
    return module


class Docs:
    """A copy of the documents."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weft-schema-')
        os.mkdir(os.path.join(self.folder.name, 'man'))
        for name in FILES:
            shutil.copy(os.path.join(DOCS, name), os.path.join(self.folder.name, name))
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def read(self, name):
        with open(os.path.join(self.folder.name, name)) as file:
            return file.read()

    def edit(self, name, before, after):
        text = self.read(name)
        assert text.count(before) >= 1, before
        with open(os.path.join(self.folder.name, name), 'w') as file:
            file.write(text.replace(before, after, 1))


def said(found):
    return [what for _, what in found]


MISTAKES = (
    ('a field that the schema lacks', 'config-schema.json',
     '"quiesce_ms": {"type": "integer", "minimum": 0, "maximum": 65535, "default": 1000},\n', '',
     ['$defs/limits: quiesce_ms is missing']),
    ('a field that the program lacks', 'config-schema.json', '"queue_size": {', '"colour": {"type": "string"},\n"queue_size": {',
     ['$defs/limits: there is no field colour']),
    ('another version of the document', 'config-schema.json', '"version": {"const": 1}', '"version": {"const": 2}',
     ['document: version: minimum is 2, must be 1', 'document: version: maximum is 2, must be 1']),
    ('another range', 'config-schema.json', '"minimum": 32, "maximum": 4096', '"minimum": 16, "maximum": 4096',
     ['$defs/limits: queue_size: minimum is 16, must be 32']),
    ('another default', 'config-schema.json', '"default": "4420"', '"default": "4421"',
     ['$defs/port: service: default is "4421", must be "4420"']),
    ('a word that is missing', 'config-schema.json', '["off", "auto", "on"]', '["off", "on"]',
     ['$defs/port: zero_copy: enum is ["off", "on"], must be ["off", "auto", "on"]']),
    ('a field that is not required', 'config-schema.json', '"required": ["group", "state"]', '"required": ["group"]',
     ['$defs/port/properties/ana/items: required must be group, state']),
    ('a patch that is not its element', 'openapi.json', '{"oneOf": [{"enum": ["tcp"], "default": "tcp"}, {"type": "null"}]}',
     '{"enum": ["tcp"]}',
     ['components/schemas/PortPatch: transport is not that of components/schemas/Port, or null']),
    ('a field that weft.json(5) lacks', 'man/weft.json.5', '.It Li quiesce_ms\n', '', ['"Limits": quiesce_ms is missing']),
    ('a field that only weft.json(5) has', 'man/weft.json.5', '.It Li queue_size\n', '.It Li colour\n.It Li queue_size\n',
     ['"Limits": there is no field colour']),
    ('a default that weft.json(5) does not say', 'man/weft.json.5', '20 to 60000; the default is 500.', '20 to 60000.',
     ['answer_ms: does not say 500']),
    ('a fixed field that the API does not call fixed', 'openapi.json', 'needs a file medium and uuid. Fixed while the target runs.',
     'needs a file medium and uuid.',
     ['components/schemas/Namespace: clustered: does not say "Fixed while the target runs."',
      'components/schemas/NamespacePatch: clustered is not that of components/schemas/Namespace, or null']),
    ('a cluster that weft.json(5) does not call fixed', 'man/weft.json.5', 'The cluster is fixed while the target runs.\n', '',
     ['"The cluster": %s: does not say "Fixed while the target runs."' % key
      for key in ('name', 'listen', 'secret_file', 'cntlids', 'answer_ms', 'fence', 'peers')]),
    ('a field that is called fixed and is not', 'config-schema.json', '"queue_size": {',
     '"queue_size": {"description": "Fixed while the target runs.", ', ['$defs/limits: queue_size: is not fixed while the target runs']),
    ('an option that weft-ctl(1) lacks', 'man/weft-ctl.1', '.It Fl -label Ar text\n', '',
     ['"Of namespaces": --label is missing']),
)


def mistakes(t, fields, tables, options):
    for name, file, before, after, wanted in MISTAKES:
        with Docs() as docs:
            docs.edit(file, before, after)
            t.eq(said(fields.check_all(tables, docs.folder.name, False, options)), wanted, name + ' is found')


def writes(t, fields, tables, options):
    """--write corrects facts and adds a new field to all documents."""
    with Docs() as docs:
        docs.edit('config-schema.json', '"minimum": 32, "maximum": 4096', '"minimum": 16, "maximum": 4096')
        docs.edit('config-schema.json', '["off", "auto", "on"]', '["off", "on"]')
        docs.edit('config-schema.json', '"default": "4420"', '"default": "4421"')
        fields.check_all(tables, docs.folder.name, True, options)
        with open(os.path.join(DOCS, 'config-schema.json')) as file:
            t.eq(json.loads(docs.read('config-schema.json')), json.load(file), 'facts are put right')
    more = copy.deepcopy(tables)
    more['limits']['colour_max'] = {'type': 'integer', 'help': 'colours of a controller', 'required': False,
                                    'change': 'fixed', 'minimum': 1, 'maximum': 77, 'default': 5}
    more['port']['colour'] = {'type': 'string', 'help': 'how it is painted', 'required': False, 'change': 'live',
                              'enum': ['red', 'blue'], 'default': 'red'}
    with Docs() as docs:
        t.eq(len(fields.check_all(more, docs.folder.name, False, options)), 7, 'two new fields are missed everywhere')
        fields.check_all(more, docs.folder.name, True, options)
        t.eq(fields.check_all(more, docs.folder.name, False, options), [], '--write adds them')
        t.eq(json.loads(docs.read('openapi.json'))['components']['schemas']['PortPatch']['properties']['colour'],
             {'oneOf': [{'description': 'How it is painted.', 'enum': ['red', 'blue'], 'default': 'red'},
                        {'type': 'null'}]}, 'to patches too')
        t.ok('.It Li colour_max\nColours of a controller, 1 to 77; the default is 5.\nFixed while the target runs.\n.El' in docs.read('man/weft.json.5'),
             'and to weft.json(5)')


def main():
    t = Tap()
    fields = tool()
    tables = fields.tables_of(os.environ['WEFT_FIELDS'])
    options = fields.options_of(target.weft_path())
    found = fields.check_all(tables, DOCS, False, options)
    for name in FILES:
        t.eq([what for path, what in found if path.endswith(name)], [], name + ' is what the tables say')
    mistakes(t, fields, tables, options)
    writes(t, fields, tables, options)
    return t.done()


if __name__ == '__main__':
    raise SystemExit(main())
