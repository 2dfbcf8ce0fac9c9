# SPDX-License-Identifier: Apache-2.0
"""Finds where a C file can be mutated, and renders the file with mutants compiled in. Used by tools/mutate.

clang's AST dump gives the byte range of every condition, statement and constant. Expansions of macros are left
alone (CHECK and the log macros among them), except a macro that stands for a constant. A mutant is an edit of one
range; all mutants of a file are rendered into one text in which `WEFT_MUTANT(id)` selects them at run time. Edits
add no line, so that a compiler's message names the line of the original.
"""

import json
import re
import shlex
import shutil
import subprocess

KINDS = ("condition", "operand", "comparison", "operator", "constant", "boolean", "status", "statement", "jump")

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
OPERATORS = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<"}
INTEGER = re.compile(r"(const )?(_Bool|(un)?signed .*|unsigned|char|short|int|long( long)?|enum .*|u?int\d+_t|s?size_t)$")
# Flags of system calls: changing one is no realistic mistake.
NOT_A_CONSTANT = re.compile(r"(NULL|errno|stderr|stdout|(O|SOCK|MSG|PROT|MAP|F|S|LOG|MFD|EFD|AF|IPPROTO|SQLITE|JSON|MHD)_\w*)$")
# Dropping these calls changes nothing that a test of behaviour can see.
NOT_DROPPED = re.compile(r"(free|log_\w+|json_decref|va_end|va_start|.*_prefetch|__builtin_\w+|explicit_bzero)$")
# Expressions that C requires to be constant.
CONSTANT_ONLY = {"ConstantExpr", "StaticAssertDecl", "UnaryExprOrTypeTraitExpr", "OffsetOfExpr", "AtomicExpr",
                 "EnumDecl", "RecordDecl", "GCCAsmStmt"}


class Mutant:
    """One edit: bytes [start, end) of a file become `template`, in which \0 is the original text."""

    def __init__(self, path, kind, start, end, template, what):
        self.path, self.kind, self.start, self.end = path, kind, start, end
        self.template, self.what = template, what
        self.line = 0
        self.id = -1

    @property
    def key(self):
        return (self.path, self.start, self.end, self.kind, self.what)


def squeeze(text):
    return re.sub(r"\s+", " ", text if isinstance(text, str) else text.decode("utf-8", "replace")).strip()


def shorten(text):
    text = squeeze(text)
    return text if len(text) <= 70 else text[:67] + "..."


class Finder:
    """Walks the functions of one file and collects the mutants."""

    def __init__(self, path, source):
        self.path, self.source = path, source
        self.found = []

    # Ranges.

    def position(self, loc):
        """(offset, length of the token, offset of the expansion or -1)."""
        if "expansionLoc" in loc:
            loc = loc["expansionLoc"]
            if "offset" not in loc:
                return None
            return loc["offset"], loc["tokLen"], loc["offset"]
        if "offset" not in loc:
            return None
        return loc["offset"], loc["tokLen"], -1

    def call_end(self, end):
        """The end of a macro's arguments, when a parenthesis follows its name."""
        source = self.source
        i = end
        while i < len(source) and source[i:i + 1].isspace():
            i += 1
        if source[i:i + 1] != b"(":
            return end
        depth = 0
        while i < len(source):
            char = source[i:i + 1]
            depth += (char == b"(") - (char == b")")
            i += 1
            if depth == 0:
                return i
        return end

    def span(self, node):
        """(start, end, whether the whole is one macro), or None."""
        if "range" not in node:
            return None
        first, last = self.position(node["range"].get("begin", {})), self.position(node["range"].get("end", {}))
        if not first or not last:
            return None
        end = last[0] + last[1]
        if last[2] >= 0:
            end = self.call_end(end)
        if end <= first[0]:
            return None
        return first[0], end, first[2] >= 0 and first[2] == last[2]

    def text(self, span):
        return self.source[span[0]:span[1]]

    def add(self, kind, span, template, what):
        self.found.append(Mutant(self.path, kind, span[0], span[1], template, what))

    # Nodes.

    def type_of(self, node):
        t = node.get("type", {})
        return t.get("desugaredQualType", t.get("qualType", ""))

    def is_integer(self, node):
        return bool(INTEGER.match(self.type_of(node)))

    def macro(self, node, span):
        """A macro that stands for a constant, a status or a truth value."""
        name = self.text(span)
        if not re.fullmatch(rb"\w+", name) or self.source[span[1]:span[1] + 1] == b"(":
            return
        word = name.decode()
        if word in ("true", "false"):
            self.add("boolean", span, "(!!(\0) ^ @)", "%s -> %s" % (word, "false" if word == "true" else "true"))
        elif word.startswith("NVME_SC_") and "nvme_status" in self.type_of(node):
            other = "NVME_SC_INVALID_FIELD" if word == "NVME_SC_INTERNAL" else "NVME_SC_INTERNAL"
            self.add("status", span, "(@ ? %s : \0)" % other, "%s -> %s" % (word, other))
        elif self.is_integer(node) and not NOT_A_CONSTANT.match(word) and word.isupper():
            self.add("constant", span, "((\0) + @)", "%s -> %s + 1" % (word, word))

    def condition(self, node):
        span = self.span(node)
        if span and not span[2]:
            text = shorten(self.text(span))
            self.add("condition", span, "(!!(\0) ^ @)", "(%s) -> !(%s)" % (text, text))

    def operand(self, node, opcode):
        span = self.span(node)
        if not span or span[2] or (node["kind"] == "BinaryOperator" and node.get("opcode") == opcode):
            return
        template = "(@ || (\0))" if opcode == "&&" else "(!@ && (\0))"
        self.add("operand", span, template, "%s %s -> %s" % (opcode, shorten(self.text(span)),
                                                             "true" if opcode == "&&" else "false"))

    def binary(self, node, span):
        left, right = (self.span(n) for n in node["inner"])
        opcode = node["opcode"]
        if opcode in ("&&", "||"):
            for inner in node["inner"]:
                self.operand(inner, opcode)
            return
        other = COMPARISONS.get(opcode) or OPERATORS.get(opcode)
        if not other or not left or not right or self.text((left[1], right[0])).strip() != opcode.encode():
            return
        kind = "comparison" if opcode in COMPARISONS else "operator"
        if kind == "operator" and not all(self.is_integer(n) for n in node["inner"]):
            if opcode != "+" or not self.is_integer(node["inner"][1]):
                return
        # Both sides appear twice in the text and are evaluated once.
        self.add(kind, span, "(@ ? (\1) %s (\2) : (\0))" % other,
                 "%s -> %s in %s" % (opcode, other, shorten(self.text(span))))
        self.found[-1].sides = (left, right)

    def literal(self, node, span):
        text = self.text(span)
        if re.fullmatch(rb"(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*", text):
            self.add("constant", span, "((\0) + @)", "%s -> %s + 1" % (text.decode(), text.decode()))

    def statement(self, node):
        """Statements that can be dropped as a whole."""
        span, kind = self.span(node), node.get("kind")
        if not span or span[2]:
            return
        if "expansionLoc" in node["range"]["begin"]:
            return
        inner = node.get("inner", [])
        is_call = kind == "CallExpr" or (kind == "CStyleCastExpr" and self.type_of(node) == "void")
        if is_call:
            name = re.match(rb"(?:\(void\)\s*)?([\w>.-]+)", self.text(span))
            if not name or NOT_DROPPED.match(name.group(1).decode()):
                return
        elif not (kind == "CompoundAssignOperator" or (kind == "BinaryOperator" and node.get("opcode") == "=") or
                  (kind == "UnaryOperator" and node.get("opcode") in ("++", "--"))):
            return
        if is_call and not inner:
            return
        self.add("statement", span, "do { if (!@) { \0; } } while (0)", "dropped: " + shorten(self.text(span)))

    def jump(self, node, returns_void):
        """Drops a break, continue or return, only where no other mutant can replace it."""
        span = self.span(node)
        if not span or span[2]:
            return
        if node["kind"] == "ReturnStmt" and (node.get("inner") or not returns_void):
            return
        self.add("jump", span, "if (!@) \0", "dropped: " + shorten(self.text(span)))

    def bodies(self, node):
        kind, inner = node["kind"], node.get("inner", [])
        if kind == "CompoundStmt":
            return inner
        if kind == "IfStmt":
            return inner[1:]
        if kind in ("ForStmt", "WhileStmt", "CaseStmt", "DefaultStmt", "LabelStmt"):
            return inner[-1:]
        if kind == "DoStmt":
            return inner[:1]
        return []

    def walk(self, node, returns_void):
        kind = node.get("kind")
        if not kind or kind in CONSTANT_ONLY:
            return
        if kind == "VarDecl" and node.get("storageClass") == "static":
            return
        span = self.span(node)
        if span and span[2] and kind not in ("CompoundStmt", "DeclStmt", "VarDecl"):
            self.macro(node, span)
            return
        inner = node.get("inner", [])
        if kind == "IfStmt" or kind == "WhileStmt" or kind == "ConditionalOperator":
            self.condition(inner[0])
        elif kind == "DoStmt":
            self.condition(inner[1])
        elif kind == "ForStmt" and inner[2].get("kind"):
            self.condition(inner[2])
        elif kind == "BinaryOperator" and span:
            self.binary(node, span)
        elif kind == "IntegerLiteral" and span:
            self.literal(node, span)
        elif kind == "DeclRefExpr" and span and node.get("referencedDecl", {}).get("kind") == "EnumConstantDecl":
            self.add("constant", span, "((\0) + @)", "%s -> %s + 1" % ((self.text(span).decode(),) * 2))
        for body in self.bodies(node):
            self.statement(body)
        if kind == "CompoundStmt":
            for body in inner:
                if body.get("kind") in ("BreakStmt", "ContinueStmt", "ReturnStmt"):
                    self.jump(body, returns_void)
        for child in inner:
            self.walk(child, returns_void)


def ast_of(command, folder, path):
    """The file's functions in clang's AST."""
    argv = shlex.split(command)
    flags = [a for a in argv if a.startswith(("-I", "-D", "-std")) and not a.startswith("-D_FORTIFY")]
    p = subprocess.run([shutil.which("clang-14") or "clang"] + flags + ["-fsyntax-only", "-w", "-Xclang", "-ast-dump=json", path], cwd=folder,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if p.returncode:
        raise SystemExit("mutate: clang does not read %s: %s" % (path, p.stderr.decode()[:500]))
    return [n for n in json.loads(p.stdout)["inner"] if n["kind"] == "FunctionDecl" and
            "includedFrom" not in n["loc"] and "expansionLoc" not in n["loc"] and
            any(i["kind"] == "CompoundStmt" for i in n.get("inner", []))]


def find(path, source, command, folder, real_path):
    """All mutants of one file, in order."""
    finder = Finder(path, source)
    for function in ast_of(command, folder, real_path):
        returns_void = function["type"]["qualType"].startswith("void (")
        for child in function["inner"]:
            if child["kind"] == "CompoundStmt":
                finder.walk(child, returns_void)
    unique = {}
    for mutant in finder.found:
        mutant.line = source.count(b"\n", 0, mutant.start) + 1
        unique.setdefault(mutant.key, mutant)
    return sorted(unique.values(), key=lambda m: m.key)


def fits(mutant, others):
    """Whether a mutant can share a text with the others: disjoint or nested, with its own range."""
    for other in others:
        if (mutant.start, mutant.end) == (other.start, other.end):
            return False
        if mutant.start < other.start < mutant.end < other.end or other.start < mutant.start < other.end < mutant.end:
            return False
    return True


def render(source, mutants, start=0, end=None):
    """The text from start to end with all its mutants."""
    end = len(source) if end is None else end
    inside = [m for m in mutants if start <= m.start and m.end <= end]
    outer = [m for m in inside if not any(o is not m and o.start <= m.start and m.end <= o.end for o in inside)]
    out, at = [], start
    for m in sorted(outer, key=lambda m: m.start):
        rest = [o for o in inside if o is not m]
        parts = {"\0": (m.start, m.end)}
        if "\1" in m.template:
            parts["\1"], parts["\2"] = m.sides[0][:2], m.sides[1][:2]
        text = m.template.replace("@", "WEFT_MUTANT(%d)" % m.id).encode()
        for i, (mark, span) in enumerate(parts.items()):
            piece = render(source, rest, *span)
            # Lines of the original are kept once.
            text = text.replace(mark.encode(), piece if i == 0 else piece.replace(b"\n", b" "))
        out += [source[at:m.start], text]
        at = m.end
    out.append(source[at:end])
    return b"".join(out)
