/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the text of a spec apart and says precisely what is wrong with it.
 *
 * Control thread, text only. Grammar:
 *     file:PATH[,size=SIZE][,block=512|4096][,readonly]
 *     mem:SIZE[,block=512|4096][,huge]
 *     null:SIZE[,block=512|4096]
 *     fault:RULE[+RULE…]@SPEC
 * A path ends at the first comma. Rules hold no '@', so the first one ends them and SPEC may be
 * another fault medium.
 */
#include "media/spec.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULES_MAX 16

int media_fail(struct media_error *ret_error, int code, const char *format, ...)
{
	va_list args;

	if (!ret_error)
		return code;
	va_start(args, format);
	vsnprintf(ret_error->text, sizeof(ret_error->text), format, args);
	va_end(args);
	return code;
}

static int parse_size(const char *what, const char *text, uint64_t *ret_bytes,
		      struct media_error *ret_error)
{
	if (*ret_bytes != 0)
		return media_fail(ret_error, -EINVAL, "%s is given twice", what);
	if (text_parse_size(text, ret_bytes) < 0)
		return media_fail(ret_error, -EINVAL,
				  "%s: \"%.60s\" is not a size; write bytes or 512K, 64M, 10G, 2T",
				  what, text);
	if (*ret_bytes == 0 || *ret_bytes > INT64_MAX)
		return media_fail(ret_error, -EINVAL, "%s: \"%.60s\" is out of range", what, text);
	return 0;
}

static int parse_block(const char *text, uint32_t *ret_block_bytes, struct media_error *ret_error)
{
	uint64_t bytes;

	if (*ret_block_bytes != 0)
		return media_fail(ret_error, -EINVAL, "block= is given twice");
	if (text_parse_size(text, &bytes) < 0 || (bytes != 512 && bytes != 4096))
		return media_fail(ret_error, -EINVAL, "block=%.60s: a block has 512 or 4096 bytes",
				  text);
	*ret_block_bytes = (uint32_t)bytes;
	return 0;
}

static const char *options_of(enum media_spec_kind kind)
{
	switch (kind) {
	case MEDIA_SPEC_FILE:
		return "size=, block=, readonly";
	case MEDIA_SPEC_MEM:
		return "block=, huge";
	case MEDIA_SPEC_NULL:
	case MEDIA_SPEC_FAULT:
		break;
	}
	return "block=";
}

static int parse_option(struct media_spec *spec, const char *option, struct media_error *ret_error)
{
	if (strncmp(option, "block=", 6) == 0)
		return parse_block(option + 6, &spec->block_bytes, ret_error);
	if (spec->kind == MEDIA_SPEC_FILE) {
		if (strncmp(option, "size=", 5) == 0)
			return parse_size("size=", option + 5, &spec->size_bytes, ret_error);
		if (strcmp(option, "readonly") == 0) {
			spec->is_read_only = true;
			return 0;
		}
	}
	if (spec->kind == MEDIA_SPEC_MEM && strcmp(option, "huge") == 0) {
		spec->wants_huge_pages = true;
		return 0;
	}
	return media_fail(ret_error, -EINVAL, "unknown option \"%.60s\"; known here: %s", option,
			  options_of(spec->kind));
}

/* file, mem and null: the first piece is the path or the size, the others are options. */
static int parse_plain(struct media_spec *spec, char *body, struct media_error *ret_error)
{
	char *rest = body;
	char *piece = strsep(&rest, ",");
	uint32_t unit;
	int res = 0;

	if (spec->kind != MEDIA_SPEC_FILE) {
		res = parse_size("the size", piece, &spec->size_bytes, ret_error);
	} else if (*piece == '\0') {
		res = media_fail(ret_error, -EINVAL, "file: needs a path: file:PATH");
	} else {
		spec->path = strdup(piece);
		if (!spec->path)
			res = media_fail(ret_error, -ENOMEM, "out of memory");
	}
	while (res == 0 && (piece = strsep(&rest, ",")))
		res = parse_option(spec, piece, ret_error);
	if (res < 0)
		return res;
	unit = spec->block_bytes;
	if (unit == 0)
		unit = spec->kind == MEDIA_SPEC_FILE ? 512 : MEDIA_BLOCK_DEFAULT;
	if (spec->size_bytes % unit != 0)
		return media_fail(ret_error, -EINVAL,
				  "%llu bytes are not a multiple of the block size %u",
				  (unsigned long long)spec->size_bytes, unit);
	return 0;
}

static int parse_nested(const char *text, unsigned depth, struct media_spec *spec,
			struct media_error *ret_error);

static int parse_fault(struct media_spec *spec, char *body, unsigned depth,
		       struct media_error *ret_error)
{
	char *inner = strchr(body, '@');
	char *rest = body;
	char *piece;
	int res;

	if (!inner)
		return media_fail(ret_error, -EINVAL,
				  "fault: needs the medium it wraps: fault:RULE[+RULE…]@SPEC");
	*inner++ = '\0';
	if (depth + 1 >= MEDIA_SPEC_NEST_MAX)
		return media_fail(ret_error, -EINVAL, "fault: more than %d inside each other",
				  MEDIA_SPEC_NEST_MAX - 1);
	spec->rules = calloc(RULES_MAX, sizeof(*spec->rules));
	spec->inner = calloc(1, sizeof(*spec->inner));
	if (!spec->rules || !spec->inner)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	while ((piece = strsep(&rest, "+"))) {
		if (spec->rule_count == RULES_MAX)
			return media_fail(ret_error, -EINVAL, "fault: more than %d rules",
					  RULES_MAX);
		res = fault_rule_parse(piece, &spec->rules[spec->rule_count], ret_error);
		if (res < 0)
			return res;
		spec->rule_count++;
	}
	return parse_nested(inner, depth + 1, spec->inner, ret_error);
}

static int parse_kind(const char *text, const char *colon, enum media_spec_kind *ret_kind,
		      struct media_error *ret_error)
{
	static const char *const names[] = {
		[MEDIA_SPEC_FILE] = "file",
		[MEDIA_SPEC_MEM] = "mem",
		[MEDIA_SPEC_NULL] = "null",
		[MEDIA_SPEC_FAULT] = "fault",
	};
	size_t len = (size_t)(colon - text);

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0) {
			*ret_kind = (enum media_spec_kind)i;
			return 0;
		}
	}
	return media_fail(ret_error, -EINVAL,
			  "unknown kind of medium \"%.*s\"; known: file, mem, null, fault",
			  (int)(len > 60 ? 60 : len), text);
}

/* Leaves in *spec whatever it allocated, for the one media_spec_free at the top. */
static int parse_nested(const char *text, unsigned depth, struct media_spec *spec,
			struct media_error *ret_error)
{
	const char *colon = strchr(text, ':');
	char *body;
	int res;

	if (!colon)
		return media_fail(ret_error, -EINVAL,
				  "\"%.60s\" names no kind of medium; write file:PATH, mem:SIZE, "
				  "null:SIZE or fault:RULES@SPEC",
				  text);
	res = parse_kind(text, colon, &spec->kind, ret_error);
	if (res < 0)
		return res;
	spec->text = strdup(text);
	body = strdup(colon + 1);
	if (!spec->text || !body)
		res = media_fail(ret_error, -ENOMEM, "out of memory");
	else if (spec->kind == MEDIA_SPEC_FAULT)
		res = parse_fault(spec, body, depth, ret_error);
	else
		res = parse_plain(spec, body, ret_error);
	free(body);
	return res;
}

int media_spec_parse(const char *text, struct media_spec *ret_spec, struct media_error *ret_error)
{
	int res;

	memset(ret_spec, 0, sizeof(*ret_spec));
	if (ret_error)
		ret_error->text[0] = '\0';
	res = parse_nested(text, 0, ret_spec, ret_error);
	if (res < 0)
		media_spec_free(ret_spec);
	return res;
}

void media_spec_free(struct media_spec *spec)
{
	if (spec->inner) {
		media_spec_free(spec->inner);
		free(spec->inner);
	}
	free(spec->rules);
	free(spec->path);
	free(spec->text);
	memset(spec, 0, sizeof(*spec));
}
