/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of the document itself: its version, the lists of subsystems and ports, the limits and
 * the cluster. Their own fields: config_subsystem.c, config_port.c, config_cluster.c.
 *
 * Control thread only. Elements that the program adds (the discovery port, the subsystem of the
 * self-check) are not written.
 */
#include "base/check.h"
#include "config/config_parse.h"
#include "config/fields.h"

#include <stdlib.h>
#include <string.h>

static void version_parse(struct config_cursor *at, const json_t *object,
			  const struct config_field *field, void *to)
{
	uint32_t version;

	config_get_u32(at, object, field->key, field->min, field->max, &version);
}

static json_t *version_write(const struct config_writing *writing, const struct config_field *field,
			     const void *from)
{
	return json_integer(CONFIG_DOCUMENT_VERSION);
}

/* ---- subsystems ------------------------------------------------------------------------------ */

static void subsystems_parse(struct config_cursor *at, const json_t *object,
			     const struct config_field *field, void *to)
{
	struct config *config = to;
	const json_t *array = NULL;

	if (!config_get_array(at, object, field->key, field->max, &array))
		return;
	config->subsystems = calloc(json_array_size(array) + 1, sizeof(*config->subsystems));
	if (!config->subsystems) {
		config_complain_memory(at, field->key);
		return;
	}
	config->subsystem_count = (unsigned)json_array_size(array);
	for (size_t i = 0; i < json_array_size(array); i++) {
		size_t mark = config_cursor_enter(at, field->key, i);

		config_subsystem_parse(at, json_array_get(array, i), &config->subsystems[i]);
		config_cursor_leave(at, mark);
	}
}

static json_t *subsystems_write(const struct config_writing *writing,
				const struct config_field *field, const void *from)
{
	const struct config *config = from;
	json_t *list = json_array();

	for (unsigned i = 0; list && i < config->subsystem_count; i++) {
		if (config->subsystems[i].is_implied)
			continue;
		if (json_array_append_new(list, config_object_write(writing, field->object,
								    &config->subsystems[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int by_nqn(const void *a, const void *b)
{
	const struct config_subsystem *x = a, *y = b;

	return strcmp(x->nqn, y->nqn);
}

static void subsystems_sort(void *of)
{
	struct config *config = of;

	/* qsort needs an array even for 0 elements, and the pointer may be NULL. */
	if (config->subsystem_count > 1)
		qsort(config->subsystems, config->subsystem_count, sizeof(*config->subsystems),
		      by_nqn);
	for (unsigned i = 0; i < config->subsystem_count; i++)
		config_object_sort(&config_subsystem_object, &config->subsystems[i]);
}

static void subsystems_release(void *of)
{
	struct config *config = of;

	for (unsigned i = 0; i < config->subsystem_count; i++)
		config_subsystem_release(&config->subsystems[i]);
	free(config->subsystems);
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* A document without "ports" has one port. */
static void port_default(struct config_cursor *at, const char *key, struct config *config)
{
	config->ports = calloc(2, sizeof(*config->ports));
	if (!config->ports) {
		config_complain_memory(at, key);
		return;
	}
	config->port_count = 1;
	config_port_init(&config->ports[0], 1);
	net_addr_parse(CONFIG_DEFAULT_ADDRESS, CONFIG_DEFAULT_PORT, &config->ports[0].listen);
}

static void ports_parse(struct config_cursor *at, const json_t *object,
			const struct config_field *field, void *to)
{
	struct config *config = to;
	const json_t *array = NULL;

	if (!json_object_get(object, field->key)) {
		port_default(at, field->key, config);
		return;
	}
	if (!config_get_array(at, object, field->key, field->max, &array))
		return;
	config->ports = calloc(json_array_size(array) + 1, sizeof(*config->ports));
	if (!config->ports) {
		config_complain_memory(at, field->key);
		return;
	}
	config->port_count = (unsigned)json_array_size(array);
	if (config->port_count == 0)
		config_complain(at, field->key,
				"is empty, so no host could connect; list a port, or leave the key "
				"out for %s:%d",
				CONFIG_DEFAULT_ADDRESS, CONFIG_DEFAULT_PORT);
	for (unsigned i = 0; i < config->port_count; i++) {
		size_t mark = config_cursor_enter(at, field->key, i);

		config_port_parse(at, json_array_get(array, i), i, &config->ports[i]);
		config_cursor_leave(at, mark);
	}
}

static json_t *ports_write(const struct config_writing *writing, const struct config_field *field,
			   const void *from)
{
	const struct config *config = from;
	json_t *list = json_array();

	for (unsigned i = 0; list && i < config->port_count; i++) {
		if (config->ports[i].is_implied)
			continue;
		if (json_array_append_new(list, config_object_write(writing, field->object,
								    &config->ports[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int by_port_id(const void *a, const void *b)
{
	const struct config_port *x = a, *y = b;

	return x->id - y->id;
}

static void ports_sort(void *of)
{
	struct config *config = of;

	if (config->port_count > 1)
		qsort(config->ports, config->port_count, sizeof(*config->ports), by_port_id);
	for (unsigned i = 0; i < config->port_count; i++)
		config_object_sort(&config_port_object, &config->ports[i]);
}

static void ports_release(void *of)
{
	struct config *config = of;

	for (unsigned i = 0; i < config->port_count; i++)
		config_object_release(&config_port_object, &config->ports[i]);
	free(config->ports);
}

/* ---- limits and cluster ---------------------------------------------------------------------- */

static void limits_parse(struct config_cursor *at, const json_t *object,
			 const struct config_field *field, void *to)
{
	const json_t *limits = json_object_get(object, field->key);
	size_t mark = config_cursor_enter(at, field->key, SIZE_MAX);

	if (limits)
		config_object_parse(at, field->object, limits, &((struct config *)to)->limits);
	config_cursor_leave(at, mark);
}

static json_t *limits_write(const struct config_writing *writing, const struct config_field *field,
			    const void *from)
{
	return config_object_write(writing, field->object, &((const struct config *)from)->limits);
}

static void cluster_parse(struct config_cursor *at, const json_t *object,
			  const struct config_field *field, void *to)
{
	const json_t *cluster = json_object_get(object, field->key);
	size_t mark = config_cursor_enter(at, field->key, SIZE_MAX);

	if (cluster)
		config_cluster_parse(at, cluster, to);
	config_cursor_leave(at, mark);
}

static bool cluster_is_written(const struct config_writing *writing, const void *from)
{
	return ((const struct config *)from)->cluster != NULL;
}

static json_t *cluster_write(const struct config_writing *writing, const struct config_field *field,
			     const void *from)
{
	return config_object_write(writing, field->object, ((const struct config *)from)->cluster);
}

/* Keeps the saved cluster. The start refuses a document with another one before merging. */
static void cluster_merge(struct config_merge *merge, const struct config_field *field,
			  json_t *saved, const json_t *more)
{
}

static void cluster_release(void *of)
{
	config_cluster_free(((struct config *)of)->cluster);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void root_prepare(void *to)
{
	config_object_init(&config_limits_object, &((struct config *)to)->limits);
}

#define TEXT_OF(number)  #number
#define VERSION(number_) TEXT_OF(number_)
static const struct config_field root_fields[] = {
	{"version", "version of the document format", .type = "integer",
	 .min = CONFIG_DOCUMENT_VERSION, .max = CONFIG_DOCUMENT_VERSION, .parse = version_parse,
	 .write = version_write,
	 .missing = "this program reads version " VERSION(CONFIG_DOCUMENT_VERSION)},
	{"subsystems", "subsystems of the target", .type = "array", .max = CONFIG_SUBSYSTEMS_MAX,
	 .parse = subsystems_parse, .write = subsystems_write, .sort = subsystems_sort,
	 .release = subsystems_release, .object = &config_subsystem_object},
	{"ports", "addresses that the target listens on", .type = "array", .max = CONFIG_PORTS_MAX,
	 .parse = ports_parse, .write = ports_write, .sort = ports_sort, .release = ports_release,
	 .object = &config_port_object},
	{"limits", "limits on what hosts may use", .type = "object", .parse = limits_parse,
	 .write = limits_write, .object = &config_limits_object},
	{"cluster", "the other members that serve clustered namespaces", .type = "object",
	 .change = FIELD_FIXED, .parse = cluster_parse, .is_written = cluster_is_written,
	 .write = cluster_write, .merge = cluster_merge, .release = cluster_release,
	 .object = &config_cluster_object},
};

const struct config_object config_root_object = {"document", sizeof(struct config), root_prepare,
						 root_fields, ARRAY_LEN(root_fields)};
