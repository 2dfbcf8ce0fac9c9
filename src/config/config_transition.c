/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes that the configuration in force forbids. A namespace is known by its UUID. It must not
 * shrink while it is served, or hosts would lose blocks. Write protection that is permanent, or
 * lasts until the target starts again (NVMe Base 2.1, section 8.1.16), is lifted only by an
 * explicit value, not by a missing key. The tables mark the fields that are fixed while the target
 * runs (config/fields.h).
 *
 * Control thread only; opens nothing. Without size= in its spec the size of a file is known only to
 * its medium, which refuses to shrink.
 */
#include "config/config_parse.h"
#include "config/fields.h"
#include "media/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The size in a spec, 0 if it has none, with the kind and path of its store. */
static uint64_t spec_bytes(const char *text, enum media_spec_kind *ret_kind, char **ret_path)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	uint64_t size_bytes;

	*ret_path = NULL;
	if (media_spec_parse(text, &parsed, NULL))
		return 0;
	at = media_spec_store(at);
	size_bytes = at->size_bytes;
	*ret_kind = at->kind;
	*ret_path = at->path ? strdup(at->path) : NULL;
	media_spec_free(&parsed);
	return size_bytes;
}

static void size_check(const struct config_named_ns *from, const struct config_named_ns *to,
		       struct config_errors *errors)
{
	enum media_spec_kind from_kind = MEDIA_SPEC_NULL, to_kind = MEDIA_SPEC_FILE;
	char *from_path, *to_path;
	uint64_t from_bytes, to_bytes;

	if (strcmp(from->ns->media, to->ns->media) == 0)
		return;
	from_bytes = spec_bytes(from->ns->media, &from_kind, &from_path);
	to_bytes = spec_bytes(to->ns->media, &to_kind, &to_path);
	if (from_kind == to_kind && from_bytes > to_bytes && to_bytes != 0 &&
	    strcmp(from_path ? from_path : "", to_path ? to_path : "") == 0)
		config_errors_add(errors,
				  "%s, namespace %u (%s): has %llu bytes and cannot shrink to "
				  "%llu; remove the namespace and add a smaller one",
				  to->nqn, to->ns->nsid, to->ns->media,
				  (unsigned long long)from_bytes, (unsigned long long)to_bytes);
	free(from_path);
	free(to_path);
}

/* A host cannot lift this protection (target/feature_ns.c). The administrator can, but not by
 * leaving the key out. */
static void protect_check(const struct config_named_ns *from, const struct config_named_ns *to,
			  struct config_errors *errors)
{
	enum ns_write_protect was = from->ns->write_protect;

	if (to->ns->is_protect_given ||
	    (was != NS_WRITE_PROTECT_PERMANENT && was != NS_WRITE_PROTECT_UNTIL_POWER_CYCLE))
		return;
	config_errors_add(
		errors,
		"%s, namespace %u: is write protected (%s); write \"write_protect\": \"%s\" to "
		"keep the protection, or \"write_protect\": \"none\" to lift it",
		to->nqn, to->ns->nsid, config_write_protect_name(was),
		config_write_protect_name(was));
}

#define RESTART "is fixed while the target runs; restart the target with the new document"

static void fixed_check(const struct config_named_ns *from, const struct config_named_ns *to,
			struct config_errors *errors)
{
	const struct config_field *field = config_object_fixed(&config_ns_object, from->ns, to->ns);

	if (field)
		config_errors_add(errors, "%s, namespace %u: \"%s\" " RESTART, to->nqn,
				  to->ns->nsid, field->key);
}

int config_check_transition(const struct config *from, const struct config *to,
			    struct config_errors *errors)
{
	unsigned before = errors->count, from_count = 0, to_count = 0, a = 0, b = 0;
	struct config_named_ns *olds, *news;
	const struct config_field *field;
	bool lacks_memory;

	if (!from)
		return 0;
	field = config_object_fixed(&config_root_object, from, to);
	if (field)
		config_errors_add(errors, "%s: " RESTART, field->key);
	olds = config_named_list(from, &from_count);
	news = config_named_list(to, &to_count);
	lacks_memory = !olds || !news;
	if (lacks_memory)
		config_errors_add(errors, "out of memory");
	while (!lacks_memory && a < from_count && b < to_count) {
		int order = config_by_uuid(&olds[a], &news[b]);

		if (order == 0) {
			size_check(&olds[a], &news[b], errors);
			protect_check(&olds[a], &news[b], errors);
			fixed_check(&olds[a], &news[b], errors);
		}
		a += order <= 0;
		b += order >= 0;
	}
	free(olds);
	free(news);
	if (lacks_memory)
		return -ENOMEM;
	return errors->count == before ? 0 : -EINVAL;
}

void config_end_power_cycle(json_t *document)
{
	json_t *subsystem, *ns;
	size_t s, n;

	json_array_foreach(json_object_get(document, "subsystems"), s, subsystem)
	{
		json_array_foreach(json_object_get(subsystem, "namespaces"), n, ns)
		{
			json_t *value = json_object_get(ns, "write_protect");

			if (json_is_string(value) &&
			    strcmp(json_string_value(value), "until-power-cycle") == 0)
				json_string_set(value, "none");
		}
	}
}
