/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives subsystems and namespaces an identity: serial number, UUID and NGUID. An identity in the
 * document is used as it is. A missing one is copied from the configuration in force or saved, if
 * that has the same namespace (same NQN, NSID and medium). Otherwise it is random, so that no two
 * targets ever offer different data under one identity. The saved document contains it, so the next
 * start finds it there.
 *
 * Memory is empty after a start, and a host that knew the namespace must not mistake the empty one
 * for it. So memory gets a new UUID at every start, and the saved document leaves that UUID out.
 *
 * Control thread only.
 */
#include "config/config_parse.h"
#include "media/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool config_nguid_is_nil(const uint8_t nguid[16])
{
	static const uint8_t nil[16];

	return memcmp(nguid, nil, sizeof(nil)) == 0;
}

/* 20 hexadecimal digits: 80 random bits. */
void config_serial_make(char ret_serial[NVME_SERIAL_BYTES + 1])
{
	struct uuid random;

	uuid_random(&random);
	/* Skips the bytes that hold the version and the variant. */
	for (unsigned i = 0; i < 6; i++)
		snprintf(ret_serial + 2 * i, 3, "%02X", random.bytes[i]);
	for (unsigned i = 6; i < 10; i++)
		snprintf(ret_serial + 2 * i, 3, "%02X", random.bytes[i + 6]);
}

bool config_ns_is_volatile(const struct config_ns *ns)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	bool is_volatile;

	if (media_spec_parse(ns->media, &parsed, NULL))
		return false;
	at = media_spec_store(at);
	is_volatile = !at->path;
	media_spec_free(&parsed);
	return is_volatile;
}

/* ---- missing identities ---------------------------------------------------------------------- */

/* `known`: the namespace of the same NQN and NSID, or NULL. */
static void ns_identify(struct config_ns *ns, const struct config_ns *known)
{
	if (known && uuid_is_nil(&ns->uuid) && config_media_same(ns->media, known->media))
		ns->uuid = known->uuid;
	if (uuid_is_nil(&ns->uuid)) {
		uuid_random(&ns->uuid);
		ns->has_made_identity = true;
	}
	if (known && uuid_equal(&ns->uuid, &known->uuid)) {
		ns->has_made_identity = known->has_made_identity;
		if (config_nguid_is_nil(ns->nguid))
			memcpy(ns->nguid, known->nguid, sizeof(ns->nguid));
	}
	if (config_nguid_is_nil(ns->nguid))
		memcpy(ns->nguid, ns->uuid.bytes, sizeof(ns->nguid));
}

/* Both lists of namespaces ascend. */
static void subsystem_identify(struct config_subsystem *subsystem,
			       const struct config_subsystem *known)
{
	unsigned k = 0, known_count = known ? known->ns_count : 0;

	if (subsystem->serial[0] == 0 && known)
		memcpy(subsystem->serial, known->serial, sizeof(subsystem->serial));
	if (subsystem->serial[0] == 0)
		config_serial_make(subsystem->serial);
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		struct config_ns *ns = &subsystem->namespaces[i];

		while (k < known_count && known->namespaces[k].nsid < ns->nsid)
			k++;
		ns_identify(ns, k < known_count && known->namespaces[k].nsid == ns->nsid
					? &known->namespaces[k]
					: NULL);
	}
}

/* ---- shared identities ----------------------------------------------------------------------- */

int config_by_uuid(const void *a, const void *b)
{
	const struct config_named_ns *x = a, *y = b;

	return memcmp(x->ns->uuid.bytes, y->ns->uuid.bytes, sizeof(x->ns->uuid.bytes));
}

struct config_named_ns *config_named_list(const struct config *config, unsigned *ret_count)
{
	struct config_named_ns *list;
	unsigned count = 0;

	for (unsigned i = 0; i < config->subsystem_count; i++)
		count += config->subsystems[i].ns_count;
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		return NULL;
	*ret_count = count;
	count = 0;
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		const struct config_subsystem *subsystem = &config->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++)
			list[count++] =
				(struct config_named_ns){subsystem->nqn, &subsystem->namespaces[n]};
	}
	if (count > 1)
		qsort(list, count, sizeof(*list), config_by_uuid);
	return list;
}

static int by_nguid(const void *a, const void *b)
{
	const struct config_named_ns *x = a, *y = b;

	return memcmp(x->ns->nguid, y->ns->nguid, sizeof(x->ns->nguid));
}

static void same_ids_complain(struct config_named_ns *list, unsigned count, const char *what,
			      int (*order)(const void *a, const void *b),
			      struct config_errors *errors)
{
	if (count > 1)
		qsort(list, count, sizeof(*list), order);
	for (unsigned i = 1; i < count; i++) {
		if (order(&list[i - 1], &list[i]) == 0)
			config_errors_add(errors,
					  "%s, namespace %u, and %s, namespace %u, have the same "
					  "%s; give each namespace its own, or leave the key out",
					  list[i - 1].nqn, list[i - 1].ns->nsid, list[i].nqn,
					  list[i].ns->nsid, what);
	}
}

/* 0, or -EINVAL or -ENOMEM with an error. */
static int repeats_check(const struct config *config, struct config_errors *errors)
{
	unsigned before = errors->count;
	unsigned count = 0;
	struct config_named_ns *list = config_named_list(config, &count);

	if (!list) {
		config_errors_add(errors, "out of memory");
		return -ENOMEM;
	}
	same_ids_complain(list, count, "UUID", config_by_uuid, errors);
	same_ids_complain(list, count, "NGUID", by_nguid, errors);
	free(list);
	return errors->count == before ? 0 : -EINVAL;
}

int config_identify(struct config *config, const struct config *known, struct config_errors *errors)
{
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		struct config_subsystem *subsystem = &config->subsystems[i];

		subsystem_identify(subsystem,
				   known ? config_find_subsystem(known, subsystem->nqn) : NULL);
	}
	return repeats_check(config, errors);
}

/* ---- documents of earlier versions ----------------------------------------------------------- */

/* The UUID that earlier versions derived from the name of the namespace. */
static void uuid_derive(const char *nqn, uint32_t nsid, const char *media, struct uuid *ret_uuid)
{
	char *identity = config_media_identity(media), *name = NULL;

	memset(ret_uuid, 0, sizeof(*ret_uuid));
	if (identity && asprintf(&name, "%s/%u/%s", nqn, nsid, identity) > 0)
		uuid_from_name(name, ret_uuid);
	else
		name = NULL;
	free(name);
	free(identity);
}

static bool is_derived_memory(const char *nqn, const json_t *ns)
{
	const char *media = json_string_value(json_object_get(ns, "media"));
	const char *text = json_string_value(json_object_get(ns, "uuid"));
	char *path = media ? config_media_path(media) : NULL;
	struct uuid kept, derived;

	if (!nqn || !media || path || !text || uuid_parse(text, &kept) < 0) {
		free(path);
		return false;
	}
	uuid_derive(nqn, (uint32_t)json_integer_value(json_object_get(ns, "nsid")), media,
		    &derived);
	return uuid_equal(&kept, &derived);
}

void config_forget_derived(json_t *document)
{
	json_t *subsystem, *ns;
	size_t s, n;

	json_array_foreach(json_object_get(document, "subsystems"), s, subsystem)
	{
		const char *nqn = json_string_value(json_object_get(subsystem, "nqn"));

		json_array_foreach(json_object_get(subsystem, "namespaces"), n, ns)
		{
			if (!is_derived_memory(nqn, ns))
				continue;
			json_object_del(ns, "uuid");
			json_object_del(ns, "nguid");
		}
	}
}
