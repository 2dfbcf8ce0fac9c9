/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The document's words for the target's enumerations, one table each, for reading and writing (ANA
 * states: wire/log_page.h); and the paths and sizes in the specs of media. Control thread only;
 * opens nothing.
 */
#include "base/text.h"
#include "config/config_parse.h"
#include "config/fields.h"
#include "media/spec.h"

#include <stdlib.h>
#include <string.h>

const char *const config_write_protects[CONFIG_WRITE_PROTECTS] = {
	[NS_WRITE_PROTECT_NONE] = "none",
	[NS_WRITE_PROTECT_ON] = "protected",
	[NS_WRITE_PROTECT_UNTIL_POWER_CYCLE] = "until-power-cycle",
	[NS_WRITE_PROTECT_PERMANENT] = "permanent",
};

bool config_ana_state_parse(const char *text, enum ana_state *ret_state)
{
	int index = config_word_find(ana_state_names, ANA_STATE_NAMES, text);

	if (index >= 0)
		*ret_state = (enum ana_state)index;
	return index >= 0;
}

const char *config_write_protect_name(enum ns_write_protect protect)
{
	return config_word_name(config_write_protects, CONFIG_WRITE_PROTECTS, protect);
}

bool config_write_protect_parse(const char *text, enum ns_write_protect *ret_protect)
{
	int index = config_word_find(config_write_protects, CONFIG_WRITE_PROTECTS, text);

	if (index >= 0)
		*ret_protect = (enum ns_write_protect)index;
	return index >= 0;
}

char *config_media_path(const char *spec)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	char *path;

	if (!spec || media_spec_parse(spec, &parsed, NULL))
		return NULL;
	at = media_spec_store(at);
	path = at->path ? strdup(at->path) : NULL;
	media_spec_free(&parsed);
	return path;
}

/* What holds the data, without options and size: the path of a file, else the kind of medium. */
char *config_media_identity(const char *spec)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	char *identity;

	if (media_spec_parse(spec, &parsed, NULL))
		return strdup(spec);
	at = media_spec_store(at);
	identity = at->path ? strdup(at->path) : strndup(at->text, strcspn(at->text, ":"));
	media_spec_free(&parsed);
	return identity;
}

bool config_media_same(const char *a, const char *b)
{
	char *x, *y;
	bool is_same;

	if (strcmp(a, b) == 0)
		return true;
	x = config_media_identity(a);
	y = config_media_identity(b);
	is_same = x && y && strcmp(x, y) == 0;
	free(x);
	free(y);
	return is_same;
}

uint64_t config_media_bytes(const char *spec)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	uint64_t size_bytes;

	if (media_spec_parse(spec, &parsed, NULL))
		return 0;
	at = media_spec_store(at);
	size_bytes = at->size_bytes;
	media_spec_free(&parsed);
	return size_bytes;
}

/* The store's spec is at the end of the whole spec, so options added at the end belong to the
 * store. */
char *config_media_with_block(const char *spec, uint32_t block_bytes)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	char *store, *rest, *piece, *text = NULL;
	size_t text_bytes;
	FILE *out;

	if (media_spec_parse(spec, &parsed, NULL))
		return NULL;
	at = media_spec_store(at);
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
