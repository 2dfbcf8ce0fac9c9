/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that the document uses for the target's enumerations, one table each, for reading and
 * writing alike; and the paths of files that media stand on.
 *
 * Control thread only; nothing is opened.
 */
#include "base/text.h"
#include "config/config_parse.h"
#include "media/spec.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	enum ana_state state;
} ana_states[] = {
	{"optimized", ANA_OPTIMIZED},
	{"non-optimized", ANA_NON_OPTIMIZED},
	{"inaccessible", ANA_INACCESSIBLE},
	{"persistent-loss", ANA_PERSISTENT_LOSS},
	{"change", ANA_CHANGE},
};

static const char *const protect_names[] = {
	[NS_WRITE_PROTECT_NONE] = "none",
	[NS_WRITE_PROTECT_ON] = "protected",
	[NS_WRITE_PROTECT_UNTIL_POWER_CYCLE] = "until-power-cycle",
	[NS_WRITE_PROTECT_PERMANENT] = "permanent",
};

const char *config_ana_state_name(enum ana_state state)
{
	for (size_t i = 0; i < ARRAY_LEN(ana_states); i++) {
		if (ana_states[i].state == state)
			return ana_states[i].name;
	}
	return "unknown";
}

bool config_ana_state_parse(const char *text, enum ana_state *ret_state)
{
	for (size_t i = 0; i < ARRAY_LEN(ana_states); i++) {
		if (strcmp(text, ana_states[i].name) == 0) {
			*ret_state = ana_states[i].state;
			return true;
		}
	}
	return false;
}

const char *config_write_protect_name(enum ns_write_protect protect)
{
	return (size_t)protect < ARRAY_LEN(protect_names) ? protect_names[protect] : "unknown";
}

bool config_write_protect_parse(const char *text, enum ns_write_protect *ret_protect)
{
	for (size_t i = 0; i < ARRAY_LEN(protect_names); i++) {
		if (strcmp(text, protect_names[i]) == 0) {
			*ret_protect = (enum ns_write_protect)i;
			return true;
		}
	}
	return false;
}

const char *config_zero_copy_name(enum zero_copy zero_copy)
{
	static const char *const names[] = {
		[ZERO_COPY_OFF] = "off", [ZERO_COPY_AUTO] = "auto", [ZERO_COPY_ON] = "on"};

	return (size_t)zero_copy < ARRAY_LEN(names) ? names[zero_copy] : "unknown";
}

char *config_media_path(const char *spec)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	char *path;

	if (!spec || media_spec_parse(spec, &parsed, NULL))
		return NULL;
	while (at->inner)
		at = at->inner;
	path = at->path ? strdup(at->path) : NULL;
	media_spec_free(&parsed);
	return path;
}

/* The innermost text ends the whole one: options of the store follow its path or size. */
char *config_media_with_block(const char *spec, uint32_t block_bytes)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	char *store, *rest, *piece, *text = NULL;
	size_t text_bytes;
	FILE *out;

	if (media_spec_parse(spec, &parsed, NULL))
		return NULL;
	while (at->inner)
		at = at->inner;
	store = rest = strdup(at->text);
	out = store ? open_memstream(&text, &text_bytes) : NULL;
	if (out) {
		fprintf(out, "%.*s%s", (int)(strlen(spec) - strlen(at->text)), spec,
			strsep(&rest, ","));
		while ((piece = strsep(&rest, ","))) {
			if (strncmp(piece, "block=", 6) != 0)
				fprintf(out, ",%s", piece);
		}
		fprintf(out, ",block=%u", block_bytes);
		if (fclose(out) != 0) {
			free(text);
			text = NULL;
		}
	}
	free(store);
	media_spec_free(&parsed);
	return text;
}

bool config_path_in_folder(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	while (len > 1 && folder[len - 1] == '/')
		len--;
	if (strncmp(path, folder, len) != 0)
		return false;
	if (folder[len - 1] != '/' && path[len++] != '/')
		return false;
	while (path[len] == '/')
		len++;
	return path[len] != 0 && !strchr(path + len, '/');
}
