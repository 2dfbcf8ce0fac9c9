/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between two configurations, for people: one line for each thing added (+),
 * removed (-) or changed (~), in the order of the document.
 *
 * Control thread only. Elements are compared in their written form (config_export.c), so a new key
 * appears here without extra code. Equal elements, usually almost all, are found without writing
 * them.
 */
#include "base/text.h"
#include "config/config_parse.h"
#include "config/document.h"
#include "config/fields.h"
#include "config/json_whole.h"
#include "media/spec.h"

#include <stdlib.h>
#include <string.h>

struct diff {
	FILE *out;
	bool is_out_of_memory;
};

/* True when the specs differ in the size alone. */
static bool size_alone_differs(const char *from, const char *to, uint64_t *ret_from,
			       uint64_t *ret_to)
{
	struct media_spec a, b;
	const struct media_spec *x = &a, *y = &b;
	bool is_so;

	if (media_spec_parse(from, &a, NULL))
		return false;
	if (media_spec_parse(to, &b, NULL)) {
		media_spec_free(&a);
		return false;
	}
	is_so = a.kind == b.kind && a.child_count == 0 && x->block_bytes == y->block_bytes &&
		x->is_read_only == y->is_read_only && x->wants_huge_pages == y->wants_huge_pages &&
		x->size_bytes != 0 && y->size_bytes != 0 &&
		strcmp(x->path ? x->path : "", y->path ? y->path : "") == 0;
	*ret_from = x->size_bytes;
	*ret_to = y->size_bytes;
	media_spec_free(&a);
	media_spec_free(&b);
	return is_so;
}

static void print_value(struct diff *diff, const json_t *value);

static void print_list(struct diff *diff, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (i > 0)
			fputc(',', diff->out);
		print_value(diff, json_array_get(list, i));
	}
}

static void print_value(struct diff *diff, const json_t *value)
{
	char *text;

	if (!value || (json_is_array(value) && json_array_size(value) == 0)) {
		fputs("none", diff->out);
		return;
	}
	if (json_is_array(value)) {
		print_list(diff, value);
		return;
	}
	/* Escaped: a host chooses its label, which must not forge lines of the log or the audit. */
	text = json_is_string(value)
		       ? text_escape_dup(json_string_value(value))
		       : json_whole_text(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
	if (text)
		fputs(text, diff->out);
	else
		diff->is_out_of_memory = true;
	free(text);
}

/* Prints " +X" or " -X" for each element of `list` that `other` lacks. */
static void print_missing(struct diff *diff, char sign, const json_t *list, const json_t *other)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (document_list_has(other, json_array_get(list, i)))
			continue;
		fprintf(diff->out, " %c", sign);
		print_value(diff, json_array_get(list, i));
	}
}

static void key_diff(struct diff *diff, const char *what, const char *key, const json_t *from,
		     const json_t *to)
{
	char a[32], b[32];
	uint64_t from_bytes, to_bytes;

	if (json_equal(from, to))
		return;
	fprintf(diff->out, "~ %s: ", what);
	if (strcmp(key, "media") == 0 && json_is_string(from) && json_is_string(to) &&
	    size_alone_differs(json_string_value(from), json_string_value(to), &from_bytes,
			       &to_bytes)) {
		text_format_size(from_bytes, a, sizeof(a));
		text_format_size(to_bytes, b, sizeof(b));
		if (strcmp(a, b) == 0)
			fprintf(diff->out, "size %llu -> %llu bytes",
				(unsigned long long)from_bytes, (unsigned long long)to_bytes);
		else
			fprintf(diff->out, "size %s -> %s", a, b);
	} else if (json_array_size(from) > 0 && json_array_size(to) > 0) {
		fputs(key, diff->out);
		print_missing(diff, '-', from, to);
		print_missing(diff, '+', to, from);
	} else {
		fprintf(diff->out, "%s ", key);
		print_value(diff, from);
		fputs(" -> ", diff->out);
		print_value(diff, to);
	}
	fputc('\n', diff->out);
}

/* Compares every key of either object except `but`. Takes both objects over. */
static void objects_diff(struct diff *diff, const char *what, json_t *from, json_t *to,
			 const char *but)
{
	const char *key;
	json_t *value;

	if (!from || !to)
		diff->is_out_of_memory = true;
	json_object_foreach(from, key, value)
	{
		if (strcmp(key, but) != 0)
			key_diff(diff, what, key, value, json_object_get(to, key));
	}
	json_object_foreach(to, key, value)
	{
		if (strcmp(key, but) != 0 && !json_object_get(from, key))
			key_diff(diff, what, key, NULL, value);
	}
	json_decref(from);
	json_decref(to);
}

/* Replaces the two access keys by one, "hosts": "any", or the list. Takes the object over. */
static json_t *with_access_word(json_t *taken_object, bool is_any)
{
	const json_t *hosts = json_object_get(taken_object, "hosts");
	size_t listed = json_array_size(hosts);
	char word[64];

	/* The list has no effect until allow_any_host is false again. */
	snprintf(word, sizeof(word), "any (%zu listed)", listed);
	if (is_any)
		json_object_set_new(taken_object, "hosts", json_string(listed > 0 ? word : "any"));
	json_object_del(taken_object, "allow_any_host");
	return taken_object;
}

static json_t *ns_words(const struct config_ns *ns)
{
	return with_access_word(config_ns_to_document(ns), !ns->is_masked);
}

static void ns_print(struct diff *diff, char sign, const char *nqn, const struct config_ns *ns)
{
	char *media = text_escape_dup(ns->media);

	diff->is_out_of_memory |= !media;
	fprintf(diff->out, "%c namespace %s/%u: %s\n", sign, nqn, ns->nsid, media ? media : "");
	free(media);
}

static void ns_diff(struct diff *diff, const char *nqn, const struct config_ns *from,
		    const struct config_ns *to)
{
	char what[NVME_NQN_BYTES + 32];

	if (!from || !to) {
		ns_print(diff, from ? '-' : '+', nqn, from ? from : to);
		return;
	}
	if (config_object_same(&config_ns_object, from, to))
		return;
	snprintf(what, sizeof(what), "namespace %s/%u", nqn, from->nsid);
	objects_diff(diff, what, ns_words(from), ns_words(to), "");
}

/* Both lists ascend, so one pass compares them. Either subsystem may be NULL. */
static void namespaces_diff(struct diff *diff, const char *nqn, const struct config_subsystem *from,
			    const struct config_subsystem *to)
{
	unsigned a = 0, b = 0;
	unsigned from_count = from ? from->ns_count : 0, to_count = to ? to->ns_count : 0;

	while (a < from_count || b < to_count) {
		const struct config_ns *x = a < from_count ? &from->namespaces[a] : NULL;
		const struct config_ns *y = b < to_count ? &to->namespaces[b] : NULL;

		if (x && y && x->nsid < y->nsid)
			y = NULL;
		else if (x && y && x->nsid > y->nsid)
			x = NULL;
		ns_diff(diff, nqn, x, y);
		a += x != NULL;
		b += y != NULL;
	}
}

static json_t *subsystem_head(const struct config_subsystem *subsystem)
{
	struct config_subsystem head = *subsystem;

	head.ns_count = 0;
	return with_access_word(config_subsystem_to_json(&head), subsystem->allows_any_host);
}

static void subsystem_diff(struct diff *diff, const struct config_subsystem *from,
			   const struct config_subsystem *to)
{
	const char *nqn = from ? from->nqn : to->nqn;
	char what[NVME_NQN_BYTES + 16];

	snprintf(what, sizeof(what), "subsystem %s", nqn);
	if (from && to)
		objects_diff(diff, what, subsystem_head(from), subsystem_head(to), "namespaces");
	else
		fprintf(diff->out, "%c %s\n", from ? '-' : '+', what);
	namespaces_diff(diff, nqn, from, to);
}

static void subsystems_diff(struct diff *diff, const struct config *from, const struct config *to)
{
	unsigned a = 0, b = 0;

	while (a < from->subsystem_count || b < to->subsystem_count) {
		const struct config_subsystem *x =
			a < from->subsystem_count ? &from->subsystems[a] : NULL;
		const struct config_subsystem *y =
			b < to->subsystem_count ? &to->subsystems[b] : NULL;
		int order = x && y ? strcmp(x->nqn, y->nqn) : 0;

		if (order < 0)
			y = NULL;
		else if (order > 0)
			x = NULL;
		a += x != NULL;
		b += y != NULL;
		if (x && x->is_implied)
			x = NULL;
		if (y && y->is_implied)
			y = NULL;
		if (x || y)
			subsystem_diff(diff, x, y);
	}
}

static json_t *port_words(const struct config *config, const struct config_port *port)
{
	json_t *object = config_port_to_json(config, port);

	if (port->offers_all)
		json_object_set_new(object, "subsystems", json_string("all"));
	return object;
}

static void ports_diff(struct diff *diff, const struct config *from, const struct config *to)
{
	unsigned a = 0, b = 0;
	char what[32], address[NET_ADDR_TEXT_BYTES];

	while (a < from->port_count || b < to->port_count) {
		const struct config_port *x = a < from->port_count ? &from->ports[a] : NULL;
		const struct config_port *y = b < to->port_count ? &to->ports[b] : NULL;

		if (x && y && x->id < y->id)
			y = NULL;
		else if (x && y && x->id > y->id)
			x = NULL;
		a += x != NULL;
		b += y != NULL;
		if (x && x->is_implied)
			x = NULL;
		if (y && y->is_implied)
			y = NULL;
		snprintf(what, sizeof(what), "port %u", x ? x->id : y ? y->id : 0);
		if (x && y)
			objects_diff(diff, what, port_words(from, x), port_words(to, y), "");
		else if (x || y)
			fprintf(diff->out, "%c %s: %s\n", x ? '-' : '+', what,
				net_addr_format(x ? &x->listen : &y->listen, address));
	}
}

static void limits_diff(struct diff *diff, const struct config *from, const struct config *to)
{
	objects_diff(diff, "limits", config_limits_to_json(&from->limits),
		     config_limits_to_json(&to->limits), "");
}

static void cluster_diff(struct diff *diff, const struct config *from, const struct config *to)
{
	if (config_cluster_same(from->cluster, to->cluster))
		return;
	if (from->cluster && to->cluster)
		objects_diff(diff, "cluster", config_cluster_to_json(from->cluster),
			     config_cluster_to_json(to->cluster), "");
	else
		fprintf(diff->out, "%c cluster: member %s\n", from->cluster ? '-' : '+',
			(from->cluster ? from->cluster : to->cluster)->peers.name);
}

char *config_diff(const struct config *from, const struct config *to)
{
	struct diff diff = {.is_out_of_memory = false};
	char *text = NULL;
	size_t text_bytes;

	diff.out = open_memstream(&text, &text_bytes);
	if (!diff.out)
		return NULL;
	subsystems_diff(&diff, from, to);
	ports_diff(&diff, from, to);
	limits_diff(&diff, from, to);
	cluster_diff(&diff, from, to);
	diff.is_out_of_memory |= ferror(diff.out) != 0;
	if (fclose(diff.out) != 0 || diff.is_out_of_memory) {
		free(text);
		return NULL;
	}
	return text;
}
