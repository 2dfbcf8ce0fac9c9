/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of a subsystem in the document: a folder, where the namespaces that hosts create become
 * files, and a capacity, which the sizes of all namespaces in the folder together must not exceed.
 * Files are sparse: sizes count, not blocks written.
 *
 * Control thread only; opens nothing.
 */
#include "config/config_parse.h"
#include "media/spec.h"

#include <stdlib.h>
#include <string.h>

/* 0 when the medium is not a file in this folder, or its spec has no size. */
static uint64_t ns_pool_bytes(const struct config_ns *ns, const char *folder)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	uint64_t size_bytes = 0;

	if (!ns->media || media_spec_parse(ns->media, &parsed, NULL))
		return 0;
	at = media_spec_store(at);
	if (at->path && config_path_in_folder(at->path, folder))
		size_bytes = at->size_bytes;
	media_spec_free(&parsed);
	return size_bytes;
}

uint64_t config_pool_used_bytes(const struct config_subsystem *subsystem)
{
	uint64_t used = 0;

	if (!subsystem->pool_folder)
		return 0;
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		uint64_t bytes = ns_pool_bytes(&subsystem->namespaces[i], subsystem->pool_folder);

		used = used + bytes < used ? UINT64_MAX : used + bytes;
	}
	return used;
}

/* "/a" and "/a//" are one folder. */
static bool same_folder(const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b);

	while (a_len > 1 && a[a_len - 1] == '/')
		a_len--;
	while (b_len > 1 && b[b_len - 1] == '/')
		b_len--;
	return a_len == b_len && memcmp(a, b, a_len) == 0;
}

void config_pool_check(struct config_cursor *at, const struct config *config, unsigned index)
{
	const struct config_subsystem *subsystem = &config->subsystems[index];
	uint64_t used;

	if (!subsystem->pool_folder)
		return;
	for (unsigned i = 0; i < index; i++) {
		if (config->subsystems[i].pool_folder &&
		    same_folder(config->subsystems[i].pool_folder, subsystem->pool_folder))
			config_complain(at, "pool",
					"%s is the pool of subsystems[%u] too; every pool needs a "
					"folder of its own",
					subsystem->pool_folder, i);
	}
	used = config_pool_used_bytes(subsystem);
	if (used > subsystem->pool_bytes)
		config_complain(at, "pool",
				"its namespaces have %llu bytes, its capacity is %llu; raise the "
				"capacity, or remove namespaces",
				(unsigned long long)used,
				(unsigned long long)subsystem->pool_bytes);
}
