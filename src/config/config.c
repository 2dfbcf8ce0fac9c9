/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a whole configuration document from a file, a string or the flags of `weft serve`, and
 * sorts its elements as a snapshot needs them. Flags are converted to a document first, so that one
 * set of rules applies.
 *
 * Control thread only. Syntax errors have line and column (from Jansson), all other errors the path
 * of the value.
 */
#include "config/config.h"

#include "base/text.h"
#include "config/config_parse.h"
#include "config/fields.h"
#include "config/json_whole.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void config_free(struct config *config)
{
	if (!config)
		return;
	config_object_release(&config_root_object, config);
	free(config);
}

int config_load_json(const json_t *root, struct config **ret_config, struct config_errors *errors)
{
	struct config_cursor at = {.errors = errors};
	struct config *config = calloc(1, sizeof(*config));
	unsigned before = errors->count;

	*ret_config = NULL;
	if (!config) {
		config_errors_add(errors, "out of memory");
		return -ENOMEM;
	}
	config_object_init(&config_root_object, config);
	if (config_object_parse(&at, &config_root_object, root, config))
		config_cross_check(&at, config);
	if (errors->count != before) {
		config_free(config);
		return at.lacks_memory ? -ENOMEM : -EINVAL;
	}
	config_object_sort(&config_root_object, config);
	*ret_config = config;
	return 0;
}

int config_load_text(const char *text, size_t len_bytes, struct config **ret_config,
		     struct config_errors *errors)
{
	json_error_t error;
	json_t *root =
		json_whole_load(text, len_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	int res;

	*ret_config = NULL;
	if (!root) {
		config_errors_add(errors, "line %d, column %d: %s", error.line, error.column,
				  error.text);
		return json_whole_errno(&error);
	}
	res = config_load_json(root, ret_config, errors);
	json_decref(root);
	return res;
}

/* Reads the whole file. 0 or -errno; -EFBIG beyond CONFIG_FILE_BYTES_MAX. The caller frees
 * *ret_text. */
static int file_read(const char *path, char **ret_text, size_t *ret_len_bytes)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t used = 0;
	int res = 0;

	if (!file)
		return -errno;
	for (;;) {
		char *grown = realloc(text, used + 65536);
		size_t got;

		if (!grown) {
			res = -ENOMEM;
			break;
		}
		text = grown;
		errno = 0;
		got = fread(text + used, 1, 65536, file);
		used += got;
		if (ferror(file))
			res = errno ? -errno : -EIO;
		else if (used > CONFIG_FILE_BYTES_MAX)
			res = -EFBIG;
		if (got == 0 || res < 0)
			break;
	}
	fclose(file);
	if (res < 0) {
		free(text);
		return res;
	}
	*ret_text = text;
	*ret_len_bytes = used;
	return 0;
}

int config_load_file(const char *path, struct config **ret_config, struct config_errors *errors)
{
	size_t len_bytes = 0;
	char *text = NULL;
	int res = file_read(path, &text, &len_bytes);

	*ret_config = NULL;
	if (res < 0) {
		config_errors_add(errors, "cannot read %s: %s", path, strerror(-res));
		return res;
	}
	res = config_load_text(text, len_bytes, ret_config, errors);
	free(text);
	return res;
}

/* HOST=RIGHT[,RIGHT]...: splits at the last "=", because an NQN may contain "=" and a right does
 * not. The caller frees *ret_host. */
static const char *flag_rights_split(const char *text, char **ret_host)
{
	const char *equals = strrchr(text, '=');

	*ret_host = equals ? strndup(text, (size_t)(equals - text)) : NULL;
	return *ret_host ? equals + 1 : NULL;
}

static void flag_rights_check(struct config_cursor *at, const char *text)
{
	char *host, *problem = NULL;
	const char *names = flag_rights_split(text, &host);
	uint32_t rights;

	if (!names)
		config_errors_add(at->errors,
				  "--rights %s: must be HOST=RIGHT[,RIGHT]... or any=RIGHT...",
				  text);
	else if (config_rights_split(names, &rights, &problem) < 0)
		config_errors_add(at->errors,
				  "--rights %s: \"%s\" is not a right; rights are write-protect, "
				  "format, label, namespaces, or all",
				  text, problem ? problem : "");
	else if (strcmp(host, CONFIG_RIGHTS_ANY) != 0)
		config_nqn_check(at, "--rights", host);
	free(problem);
	free(host);
}

/* Out of memory for one part fails the whole document. Otherwise a namespace would be missing
 * without an error, and without the list of hosts any host could connect. */
static json_t *whole_or_none(json_t *taken_part, bool is_whole)
{
	if (is_whole)
		return taken_part;
	json_decref(taken_part);
	return NULL;
}

static bool flag_rights_add(json_t *object, const char *flag)
{
	char *host, *problem = NULL;
	const char *names = flag_rights_split(flag, &host);
	uint32_t rights = 0;
	bool is_added = names && config_rights_split(names, &rights, &problem) == 0 &&
			json_object_set_new(object, host, config_rights_to_json(rights)) == 0;

	free(problem);
	free(host);
	return is_added;
}

static json_t *flags_rights(const struct config_flags *flags)
{
	json_t *object = json_object();
	bool is_whole = object != NULL;

	for (unsigned i = 0; is_whole && i < flags->rights_count; i++)
		is_whole = flag_rights_add(object, flags->rights[i]);
	return whole_or_none(object, is_whole);
}

static bool is_utf8(const char *text)
{
	size_t bytes = 1;

	while (*text != 0 && bytes > 0) {
		bytes = text_utf8_bytes(text);
		text += bytes;
	}
	return bytes > 0;
}

static void flags_check(const struct config_flags *flags, struct config_errors *errors)
{
	struct config_cursor at = {.errors = errors};
	struct media_error media_error = {""};
	struct net_addr addr;

	if (flags->nqn)
		config_nqn_check(&at, "--nqn", flags->nqn);
	for (unsigned i = 0; i < flags->host_count; i++)
		config_nqn_check(&at, "--allow-host", flags->hosts[i]);
	for (unsigned i = 0; i < flags->rights_count; i++)
		flag_rights_check(&at, flags->rights[i]);
	for (unsigned i = 0; i < flags->ns_count; i++) {
		/* JSON strings must be UTF-8. */
		if (!is_utf8(flags->namespaces[i]))
			config_errors_add(errors, "--ns %s: is not valid UTF-8; rename the file",
					  flags->namespaces[i]);
		else if (media_check_spec(flags->namespaces[i], &media_error))
			config_errors_add(errors, "--ns %s: %s", flags->namespaces[i],
					  media_error.text);
	}
	for (unsigned i = 0; i < flags->listen_count; i++) {
		if (net_addr_parse(flags->listens[i], CONFIG_DEFAULT_PORT, &addr))
			config_errors_add(errors,
					  "--listen %s: must be ADDRESS or ADDRESS:PORT, numeric, "
					  "such as 0.0.0.0:4420 or [::1]:4420",
					  flags->listens[i]);
	}
}

static json_t *flags_ports(const struct config_flags *flags)
{
	json_t *ports = json_array();
	char host[NET_ADDR_TEXT_BYTES], service[8];
	bool is_whole = ports != NULL;
	struct net_addr addr;

	for (unsigned i = 0; is_whole && i < flags->listen_count; i++) {
		is_whole = net_addr_parse(flags->listens[i], CONFIG_DEFAULT_PORT, &addr) == 0;
		if (!is_whole)
			break;
		net_addr_format_host(&addr, host);
		snprintf(service, sizeof(service), "%u", net_addr_port(&addr));
		is_whole = json_array_append_new(ports, json_pack("{s:s,s:s}", "address", host,
								  "service", service)) == 0;
	}
	return whole_or_none(ports, is_whole);
}

static json_t *flags_namespaces(const struct config_flags *flags)
{
	json_t *namespaces = json_array();
	bool is_whole = namespaces != NULL;

	for (unsigned i = 0; is_whole && i < flags->ns_count; i++)
		is_whole = json_array_append_new(namespaces, json_pack("{s:s}", "media",
								       flags->namespaces[i])) == 0;
	return whole_or_none(namespaces, is_whole);
}

static json_t *flags_hosts(const struct config_flags *flags)
{
	json_t *hosts = json_array();
	bool is_whole = hosts != NULL;

	for (unsigned i = 0; is_whole && i < flags->host_count; i++)
		is_whole = json_array_append_new(hosts, json_string(flags->hosts[i])) == 0;
	return whole_or_none(hosts, is_whole);
}

static json_t *flags_subsystem(const struct config_flags *flags)
{
	json_t *subsystem = json_pack("{s:s}", "nqn", flags->nqn ? flags->nqn : TARGET_DEFAULT_NQN);
	bool is_whole = json_object_set_new(subsystem, "namespaces", flags_namespaces(flags)) == 0;

	if (is_whole && flags->host_count > 0)
		is_whole = json_object_set_new(subsystem, "hosts", flags_hosts(flags)) == 0;
	if (is_whole && flags->rights_count > 0)
		is_whole = json_object_set_new(subsystem, "rights", flags_rights(flags)) == 0;
	return whole_or_none(subsystem, is_whole);
}

/* Contains only the flags that were given: an absent key has its default, and --merge leaves it
 * unchanged. */
static json_t *flags_make(const struct config_flags *flags)
{
	json_t *root = json_pack("{s:i,s:[]}", "version", CONFIG_DOCUMENT_VERSION, "subsystems");
	json_t *subsystems = json_object_get(root, "subsystems");
	bool is_whole = root != NULL;

	if (is_whole &&
	    (flags->nqn || flags->ns_count > 0 || flags->host_count > 0 || flags->rights_count > 0))
		is_whole = json_array_append_new(subsystems, flags_subsystem(flags)) == 0;
	if (is_whole && flags->listen_count > 0)
		is_whole = json_object_set_new(root, "ports", flags_ports(flags)) == 0;
	return whole_or_none(root, is_whole);
}

json_t *config_flags_document(const struct config_flags *flags, struct config_errors *errors)
{
	unsigned before = errors->count;
	json_t *root;

	flags_check(flags, errors);
	if (errors->count != before)
		return NULL;
	root = flags_make(flags);
	if (!root)
		config_errors_add(errors, "out of memory");
	return root;
}

int config_from_flags(const struct config_flags *flags, struct config **ret_config,
		      struct config_errors *errors)
{
	json_t *root = config_flags_document(flags, errors);
	int res;

	*ret_config = NULL;
	if (!root)
		return -EINVAL;
	res = config_load_json(root, ret_config, errors);
	json_decref(root);
	return res;
}
