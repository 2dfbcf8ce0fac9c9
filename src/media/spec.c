/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a spec and explains what is wrong with it.
 *
 * Control thread, strings only. Grammar:
 *     file:PATH[,size=SIZE][,block=512|4096][,readonly]
 *     mem:SIZE[,block=512|4096][,huge]
 *     null:SIZE[,block=512|4096]
 * and the specs that drivers parse themselves (volume/). A path ends at the first comma.
 */
#include "media/driver.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
			  spec->driver->options);
}

/* Parses file, mem and null: the first piece is the path or the size, the others are options. */
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

/* Lists the names or forms of all drivers: "A, B, C" with `last` before the last one. */
static void drivers_list(char *text, size_t size, bool wants_forms, const char *last)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; media_drivers[i] && used < size; i++) {
		const char *between = media_drivers[i + 1] ? ", " : last;
		int res = snprintf(text + used, size - used, "%s%s", i == 0 ? "" : between,
				   wants_forms ? media_drivers[i]->form : media_drivers[i]->name);

		used += res < 0 ? 0 : (size_t)res;
	}
}

static const struct media_driver *driver_find(const char *text, const char *colon)
{
	size_t len = (size_t)(colon - text);

	for (unsigned i = 0; media_drivers[i]; i++) {
		const char *name = media_drivers[i]->name;

		if (strlen(name) == len && memcmp(name, text, len) == 0)
			return media_drivers[i];
	}
	return NULL;
}

/* On failure *spec keeps its allocations; the top-level caller frees them by media_spec_free. */
static int parse_nested(const char *text, unsigned depth, struct media_spec *spec,
			struct media_error *ret_error)
{
	const char *colon = strchr(text, ':');
	char known[128];
	char *body;
	int res;

	if (!colon) {
		drivers_list(known, sizeof(known), true, " or ");
		return media_fail(ret_error, -EINVAL, "\"%.60s\" names no kind of medium; write %s",
				  text, known);
	}
	spec->driver = driver_find(text, colon);
	if (!spec->driver) {
		drivers_list(known, sizeof(known), false, ", ");
		return media_fail(ret_error, -EINVAL, "unknown kind of medium \"%.*s\"; known: %s",
				  (int)(colon - text > 60 ? 60 : colon - text), text, known);
	}
	spec->kind = spec->driver->kind;
	spec->is_wrapper = spec->driver->is_wrapper;
	spec->text = strdup(text);
	body = strdup(colon + 1);
	if (!spec->text || !body)
		res = media_fail(ret_error, -ENOMEM, "out of memory");
	else if (spec->driver->parse)
		res = spec->driver->parse(spec, body, depth, ret_error);
	else
		res = parse_plain(spec, body, ret_error);
	free(body);
	CHECK(res < 0 || !spec->is_wrapper || spec->child_count == 1);
	return res;
}

int media_spec_add_children(struct media_spec *spec, unsigned count, struct media_error *ret_error)
{
	spec->children = calloc(count, sizeof(*spec->children));
	if (!spec->children)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	spec->child_count = count;
	return 0;
}

int media_spec_parse_child(struct media_spec *spec, unsigned index, const char *text,
			   unsigned depth, struct media_error *ret_error)
{
	if (depth + 1 >= MEDIA_SPEC_NEST_MAX)
		return media_fail(ret_error, -EINVAL, "%s: more than %d media nested in each other",
				  spec->driver->name, MEDIA_SPEC_NEST_MAX - 1);
	return parse_nested(text, depth + 1, &spec->children[index], ret_error);
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

static bool has_file(const struct media_spec *spec)
{
	for (unsigned i = 0; i < spec->child_count; i++) {
		if (has_file(&spec->children[i]))
			return true;
	}
	return spec->kind == MEDIA_SPEC_FILE;
}

bool media_spec_is_over_files(const struct media_spec *spec)
{
	const struct media_spec *store = media_spec_store(spec);

	return store->child_count > 0 && has_file(store);
}

void media_spec_free(struct media_spec *spec)
{
	for (unsigned i = 0; i < spec->child_count; i++)
		media_spec_free(&spec->children[i]);
	free(spec->children);
	free(spec->own);
	free(spec->path);
	free(spec->text);
	memset(spec, 0, sizeof(*spec));
}
