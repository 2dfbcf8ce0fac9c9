# SPDX-License-Identifier: Apache-2.0
"""
The REST API as a client sees it, in plain Python: raw HTTP over the Unix socket or TCP, and a Judge that
checks answers against docs/openapi.json. The Judge implements the JSON Schema keywords of that document and
fails on any other, so that the document cannot promise what the tests do not check.
"""

import fcntl
import json
import os
import re
import socket
import termios

TIMEOUT_S = 60.0
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs')
METHODS = ('get', 'put', 'post', 'patch', 'delete')
IGNORED = ('description', 'default')
TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'null': type(None)}


def load_document():
    with open(os.path.join(DOCS, 'openapi.json')) as file:
        return json.load(file)


class Judge:
    """Checks an answer; returns the errors as a list of strings."""

    def __init__(self):
        self.document = load_document()
        self.seen = set()  # (method, path pattern, status)

    def follow(self, ref):
        at = self.document
        for key in ref[2:].split('/'):
            at = at[key]
        return at

    def operations(self):
        for path, item in self.document['paths'].items():
            for method in item:
                yield method.upper(), path

    def pattern_of(self, path):
        """The path pattern of the document that matches `path`, or None."""
        for pattern in sorted(self.document['paths'], key=lambda p: p.count('{')):
            if re.fullmatch(re.sub(r'\{\w+\}', '[^/]+', pattern.replace('.', r'\.')), path):
                return pattern
        return None

    def answer(self, method, path, answer):
        pattern = self.pattern_of(path.split('?')[0])
        item = self.document['paths'].get(pattern, {})
        operation = item.get('get' if method == 'HEAD' else method.lower())
        if operation is None:
            # Unknown path, or a method that the path does not have: the answer is a common error.
            return self.value(answer.json, {'$ref': '#/components/schemas/Error'}, 'error')
        self.seen.add((method, pattern, answer.status))
        response = operation['responses'].get(str(answer.status))
        where = '%s %s, %d' % (method, pattern, answer.status)
        if response is None:
            return [where + ': this status is not described']
        if '$ref' in response:
            response = self.follow(response['$ref'])
        kind = answer.header('content-type')
        if kind not in response['content']:
            return ['%s: content type %s' % (where, kind)]
        bad = [name for name in response.get('headers', {}) if answer.header(name) is None]
        if method == 'HEAD':
            return bad
        return ['%s: no header %s' % (where, name) for name in bad] + \
            self.value(answer.json, response['content'][kind]['schema'], where)

    def value(self, value, schema, where):
        bad = []
        for keyword, want in schema.items():
            if keyword in IGNORED:
                continue
            judge = getattr(self, 'on_' + keyword.replace('$', ''), None)
            if judge is None:
                bad.append('%s: the judge does not know "%s"' % (where, keyword))
            else:
                bad += judge(value, want, where, schema)
        return bad

    def on_ref(self, value, want, where, schema):
        return self.value(value, self.follow(want), where)

    def on_type(self, value, want, where, schema):
        if want == 'integer':
            good = isinstance(value, int) and not isinstance(value, bool)
        elif want == 'number':
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
        else:
            good = isinstance(value, TYPES[want])
        return [] if good else ['%s: %r is no %s' % (where, value, want)]

    def on_enum(self, value, want, where, schema):
        return [] if value in want else ['%s: %r is not one of %r' % (where, value, want)]

    def on_const(self, value, want, where, schema):
        return [] if value == want else ['%s: %r is not %r' % (where, value, want)]

    def on_required(self, value, want, where, schema):
        return ['%s: %s is missing' % (where, key) for key in want if key not in value]

    def on_properties(self, value, want, where, schema):
        bad = []
        for key, below in want.items():
            if isinstance(value, dict) and key in value:
                bad += self.value(value[key], below, where + '.' + key)
        return bad

    def on_additionalProperties(self, value, want, where, schema):
        known = schema.get('properties', {})
        return [] if want else ['%s: %s is not described' % (where, key)
                                for key in value if key not in known]

    def on_items(self, value, want, where, schema):
        bad = []
        for i, element in enumerate(value if isinstance(value, list) else []):
            bad += self.value(element, want, '%s[%d]' % (where, i))
        return bad

    def on_allOf(self, value, want, where, schema):
        return [line for below in want for line in self.value(value, below, where)]

    def on_oneOf(self, value, want, where, schema):
        good = [below for below in want if not self.value(value, below, where)]
        return [] if len(good) == 1 else ['%s: %d of oneOf match' % (where, len(good))]

    def on_minimum(self, value, want, where, schema):
        return [] if value >= want else ['%s: %r is below %r' % (where, value, want)]

    def on_maximum(self, value, want, where, schema):
        return [] if value <= want else ['%s: %r is above %r' % (where, value, want)]

    def on_minLength(self, value, want, where, schema):
        return [] if len(value) >= want else ['%s: too short' % where]

    def on_maxLength(self, value, want, where, schema):
        return [] if len(value) <= want else ['%s: too long' % where]

    def on_minItems(self, value, want, where, schema):
        return [] if len(value) >= want else ['%s: too few' % where]

    def on_maxItems(self, value, want, where, schema):
        return [] if len(value) <= want else ['%s: too many' % where]

    def on_uniqueItems(self, value, want, where, schema):
        return [] if len(set(map(str, value))) == len(value) else ['%s: one twice' % where]

    def on_pattern(self, value, want, where, schema):
        return [] if re.search(want, value) else ['%s: %r is not %s' % (where, value, want)]

    def on_format(self, value, want, where, schema):
        uuid = r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
        good = want == 'uuid' and re.fullmatch(uuid, value)
        return [] if good else ['%s: %r is no %s' % (where, value, want)]


class Answer:
    def __init__(self, head, body):
        lines = head.decode('latin-1').split('\r\n')
        self.status = int(lines[0].split()[1])
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(':')
            self.headers[name.strip().lower()] = value.strip()
        self.body = body
        self.json = None
        if body and 'json' in self.headers.get('content-type', ''):
            self.json = json.loads(body)

    def header(self, name):
        return self.headers.get(name.lower())

    @property
    def generation(self):
        return int(self.header('etag').strip('"'))


class Connection:
    """One connection; can send single bytes."""

    def __init__(self, place, timeout=TIMEOUT_S):
        if isinstance(place, tuple):
            self.sock = socket.create_connection(place, timeout)
        else:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(timeout)
            self.sock.connect(place)
        self.buf = b''

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def send(self, data):
        self.sock.sendall(data)

    def is_read(self):
        """True when the target has read everything sent (Unix socket only)."""
        return fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)) == bytes(4)

    def more(self):
        part = self.sock.recv(1 << 16)
        if not part:
            raise EOFError('the target ended the connection after %d bytes' % len(self.buf))
        self.buf += part

    def receive(self, has_body=True):
        while b'\r\n\r\n' not in self.buf:
            self.more()
        head, _, self.buf = self.buf.partition(b'\r\n\r\n')
        answer = Answer(head, b'')
        if not has_body:
            return answer
        length = int(answer.header('content-length') or 0)
        while len(self.buf) < length:
            self.more()
        body, self.buf = self.buf[:length], self.buf[length:]
        return Answer(head, body)

    def is_ended(self):
        """Waits until the target closes the connection; False on time-out."""
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        except socket.timeout:
            return False
        return True


def request(method, path, body=None, **headers):
    """The bytes of a request; _ in a keyword stands for - in a header name."""
    data = body if isinstance(body, bytes) else \
        b'' if body is None else json.dumps(body).encode()
    lines = ['%s %s HTTP/1.1' % (method, path), 'Host: weft']
    if data and 'Content_Type' not in headers:
        lines.append('Content-Type: application/json')
    if data and 'Content_Length' not in headers and 'Transfer_Encoding' not in headers:
        lines.append('Content-Length: %d' % len(data))
    lines += ['%s: %s' % (name.replace('_', '-'), value) for name, value in headers.items()
              if value is not None]
    return '\r\n'.join(lines).encode() + b'\r\n\r\n' + data


class Client:
    """Sends requests, checks every answer against the document, and collects the errors."""

    def __init__(self, place, judge=None, token=None):
        self.place = place
        self.judge = judge or Judge()
        self.token = token
        self.violations = []

    def call(self, method, path, body=None, **headers):
        if self.token:
            headers.setdefault('Authorization', 'Bearer ' + self.token)
        with Connection(self.place) as conn:
            conn.send(request(method, path, body, **headers))
            answer = conn.receive(method != 'HEAD')
        self.violations += self.judge.answer(method, path, answer)
        return answer

    def get(self, path, **headers):
        return self.call('GET', path, **headers)

    def post(self, path, body, **headers):
        return self.call('POST', path, body, **headers)

    def put(self, path, body, **headers):
        return self.call('PUT', path, body, **headers)

    def patch(self, path, body, **headers):
        return self.call('PATCH', path, body, **headers)

    def delete(self, path, **headers):
        return self.call('DELETE', path, **headers)
