/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses what a target starts with (see daemon/start.h) and names sources by their hash: SHA-256
 * of the document with sorted keys, so that spaces and order do not count, or of the flags as a
 * string. The document is hashed as written, without the defaults of this version, so that another
 * version finds the same hash.
 *
 * Main thread, before the reactors run. A reload reads files on the control reactor, which is the
 * same thread.
 */
#include "daemon/start.h"

#include "base/log.h"
#include "config/config_parse.h"
#include "config/json_whole.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- sources ----------------------------------------------------------------------------------
 */

static void text_hash(const char *text, size_t len_bytes, char ret_hash[STORE_HASH_BYTES])
{
	unsigned char digest[EVP_MAX_MD_SIZE] = {0};
	unsigned bytes = 0;

	EVP_Digest(text, len_bytes, digest, &bytes, EVP_sha256(), NULL);
	for (unsigned i = 0; i < 32; i++)
		snprintf(ret_hash + (size_t)i * 2, 3, "%02x", digest[i]);
}

struct reading {
	FILE *file;
	size_t used;
	int res;
};

static size_t reading_more(void *buffer, size_t bytes, void *data)
{
	struct reading *reading = data;
	size_t got;

	errno = 0;
	got = fread(buffer, 1, bytes, reading->file);
	reading->used += got;
	if (ferror(reading->file))
		reading->res = errno ? -errno : -EIO;
	else if (reading->used > CONFIG_FILE_BYTES_MAX)
		reading->res = -EFBIG;
	return reading->res < 0 ? (size_t)-1 : got;
}

int start_read_file(const char *path, json_t **ret_document, char ret_hash[STORE_HASH_BYTES],
		    struct config_errors *errors)
{
	struct reading reading = {.file = fopen(path, "re")};
	json_error_t error;
	char *text;

	*ret_document = NULL;
	if (!reading.file) {
		reading.res = -errno;
	} else {
		*ret_document = json_whole_read(reading_more, &reading,
						JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
		fclose(reading.file);
	}
	if (reading.res < 0) {
		config_errors_add(errors, "cannot read %s: %s", path, strerror(-reading.res));
		json_decref(*ret_document);
		*ret_document = NULL;
		return reading.res;
	}
	if (!*ret_document) {
		config_errors_add(errors, "line %d, column %d: %s", error.line, error.column,
				  error.text);
		return json_whole_errno(&error);
	}
	text = json_whole_text(*ret_document, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	if (!text) {
		config_errors_add(errors, "out of memory");
		json_decref(*ret_document);
		*ret_document = NULL;
		return -ENOMEM;
	}
	text_hash(text, strlen(text), ret_hash);
	free(text);
	return 0;
}

static json_t *texts_of(const char *const *items, unsigned count)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < count; i++)
		json_array_append_new(array, json_string_nocheck(items[i]));
	return array;
}

void start_hash_flags(const struct config_flags *flags, char ret_hash[STORE_HASH_BYTES])
{
	json_t *root = json_object();
	char *text;

	if (flags->nqn)
		json_object_set_new(root, "nqn", json_string_nocheck(flags->nqn));
	json_object_set_new(root, "listen", texts_of(flags->listens, flags->listen_count));
	json_object_set_new(root, "ns", texts_of(flags->namespaces, flags->ns_count));
	json_object_set_new(root, "hosts", texts_of(flags->hosts, flags->host_count));
	/* Only when given, so that flags without rights have the hash of earlier versions. */
	if (flags->rights_count > 0)
		json_object_set_new(root, "rights", texts_of(flags->rights, flags->rights_count));
	text = json_whole_text(root, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	text_hash(text ? text : "", text ? strlen(text) : 0, ret_hash);
	free(text);
	json_decref(root);
}

/* ---- the saved state --------------------------------------------------------------------------
 */

static int kept_load(const json_t *kept, struct config **ret_config, struct config_errors *errors)
{
	json_t *document = json_deep_copy(kept);
	int res;

	*ret_config = NULL;
	if (!document) {
		config_errors_add(errors, "out of memory");
		return -ENOMEM;
	}
	config_end_power_cycle(document);
	config_forget_derived(document);
	res = config_load_json(document, ret_config, errors);
	json_decref(document);
	return res;
}

/* A relative path leads elsewhere from another folder: to a missing file, or to a new and empty
 * one. */
static int folder_check(const struct store *store, const struct config *config)
{
	char folder[PATH_MAX];

	if (!getcwd(folder, sizeof(folder)))
		folder[0] = 0;
	if (strcmp(folder, store_folder(store)) == 0)
		return 0;
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		const struct config_subsystem *subsystem = &config->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++) {
			char *path = config_media_path(subsystem->namespaces[n].media);
			bool is_relative = path && path[0] != '/';

			free(path);
			if (!is_relative)
				continue;
			log_error(
				"control",
				"%s, namespace %u (%s): the saved state has this path relative to "
				"%s; start in that folder, or replace the saved state with --reset",
				subsystem->nqn, subsystem->namespaces[n].nsid,
				subsystem->namespaces[n].media, store_folder(store));
			return -ENOENT;
		}
	}
	return 0;
}

/* Memory is empty after a start: hosts must not mistake it for the data that they knew. */
static void new_memory_log(const struct config *config)
{
	unsigned count = 0;

	for (unsigned i = 0; i < config->subsystem_count; i++) {
		const struct config_subsystem *subsystem = &config->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++)
			count += subsystem->namespaces[n].has_made_identity &&
				 config_ns_is_volatile(&subsystem->namespaces[n]);
	}
	if (count > 0)
		log_info("control", "%u namespace%s in memory: empty, with a new UUID for this run",
			 count, count == 1 ? " is" : "s are");
}

/* Namespaces that `known` has too keep their identity. known NULL: none. */
static int identify(struct config *config, const struct config *known)
{
	struct config_errors errors = {.count = 0};
	int res = config_identify(config, known, &errors);

	if (res < 0)
		config_errors_log("the configuration", &errors);
	return res;
}

/* ---- another source ---------------------------------------------------------------------------
 */

#define DIFFERENCES_MAX 20 /* differences listed in the log */

static const char *source_name(const struct daemon_options *options)
{
	return options->config_path ? options->config_path
	       : options->source    ? "the command line"
				    : "the default configuration";
}

static void differences_log(enum log_level level, const char *diff)
{
	unsigned count = 0;

	for (const char *line = diff; *line;) {
		size_t len = strcspn(line, "\n");

		if (count++ < DIFFERENCES_MAX)
			log_line(level, "control", "    %.*s", (int)len, line);
		line += len + (line[len] == '\n');
	}
	if (count > DIFFERENCES_MAX)
		log_line(level, "control", "    ... and %u more", count - DIFFERENCES_MAX);
}

static void refusal_log(const struct store *store, const struct daemon_options *options,
			const char *diff)
{
	log_error(
		"control",
		"%s differs from the saved state (generation %llu). Starting with it would change:",
		source_name(options), (unsigned long long)store_generation(store));
	differences_log(LOG_LEVEL_ERROR, diff);
	log_error("control",
		  "Not started, and nothing has changed. Start without %s to use the saved state, "
		  "with --merge to add to it, or with --reset to replace it",
		  options->config_path ? "-c" : "these options");
}

/* The saved cluster has its defaults filled in, and the source's cluster is as written: only what
 * both mean can be compared. A source without a cluster leaves the saved cluster as it is. */
static int merge_check_cluster(const struct config *kept, const struct config *source,
			       struct config_errors *errors)
{
	if (!source->cluster || config_cluster_same(kept->cluster, source->cluster))
		return 0;
	config_errors_add(errors,
			  "--merge: the saved state has %s \"cluster\"; replace it with "
			  "--reset",
			  kept->cluster ? "another" : "no");
	return -EINVAL;
}

/* *ret_config: the saved state with what the source adds and changes. */
static int merge_make(const struct start *start, const struct config *kept,
		      const struct daemon_options *options, struct config **ret_config)
{
	struct config_errors errors = {.count = 0};
	json_t *document = json_deep_copy(start->kept);
	int res = document ? merge_check_cluster(kept, start->config, &errors) : -ENOMEM;

	*ret_config = NULL;
	if (res == 0) {
		config_end_power_cycle(document);
		config_forget_derived(document);
		res = config_merge(document, options->source, &errors);
	}
	if (res == 0)
		res = config_load_json(document, ret_config, &errors);
	if (res == 0)
		res = config_identify(*ret_config, kept, &errors);
	if (res == 0)
		res = config_check_transition(kept, *ret_config, &errors);
	if (res < 0)
		config_errors_log(source_name(options), &errors);
	json_decref(document);
	return res;
}

/*
 * Called when the source has changed, or shall be merged. Replaces start->config, the source's,
 * with the configuration to start with. 0, or -errno after the reason was logged.
 */
static int source_settle(struct store *store, const struct daemon_options *options,
			 const struct config *kept, struct start *start)
{
	bool is_merge = options->start == DAEMON_MERGE;
	struct config *merged;
	int res;

	if (is_merge) {
		res = merge_make(start, kept, options, &merged);
		if (res < 0)
			return res;
		config_free(start->config);
		start->config = merged;
	} else {
		res = identify(start->config, kept);
		if (res < 0)
			return res;
	}
	start->source_hash = options->source_hash ? options->source_hash : "";
	start->diff = config_diff(kept, start->config);
	if (!start->diff)
		return -ENOMEM;
	if (start->diff[0] == 0) {
		log_info("control", "%s equals the saved state", source_name(options));
		return 0;
	}
	if (options->start == DAEMON_SAME) {
		refusal_log(store, options, start->diff);
		return -EEXIST;
	}
	if (is_merge) {
		log_warn("control", "--merge: %s changes the saved state (generation %llu):",
			 source_name(options), (unsigned long long)store_generation(store));
		differences_log(LOG_LEVEL_WARN, start->diff);
		return 0;
	}
	res = start_copy(store, options->state_dir);
	if (res == 0)
		differences_log(LOG_LEVEL_WARN, start->diff);
	return res;
}

/* The saved state cannot be read as a configuration: --reset can only keep a copy of it. */
static int unreadable_settle(struct store *store, const struct daemon_options *options,
			     const struct config_errors *errors, struct start *start)
{
	config_errors_log("the saved state", errors);
	if (options->start == DAEMON_RESET) {
		int res = identify(start->config, NULL);

		start->source_hash = options->source_hash ? options->source_hash : "";
		return res < 0 ? res : start_copy(store, options->state_dir);
	}
	log_error("control", "the saved state cannot be used; --reset starts with the file or the "
			     "flags instead");
	return -EINVAL;
}

/* ---- the choice -------------------------------------------------------------------------------
 */

static bool is_kept_wanted(const struct store *store, const struct daemon_options *options)
{
	if (options->start == DAEMON_RESET || (options->start == DAEMON_MERGE && options->source))
		return false;
	return !options->source_hash || strcmp(options->source_hash, store_source_hash(store)) == 0;
}

static int kept_settle(struct store *store, const struct daemon_options *options,
		       struct start *start)
{
	struct config_errors errors = {.count = 0};
	struct config *kept;
	int res = kept_load(start->kept, &kept, &errors);

	if (res < 0)
		return unreadable_settle(store, options, &errors, start);
	if (options->start != DAEMON_RESET)
		res = folder_check(store, kept);
	if (res == 0 && !is_kept_wanted(store, options)) {
		res = source_settle(store, options, kept, start);
	} else if (res == 0) {
		config_free(start->config);
		start->config = kept;
		log_info("control", "starting with the saved state, generation %llu",
			 (unsigned long long)store_generation(store));
		return identify(kept, NULL);
	}
	config_free(kept);
	return res;
}

int start_choose(struct store *store, const struct daemon_options *options, struct start *ret_start)
{
	struct store_error error;
	int res;

	*ret_start = (struct start){.config = options->taken_config};
	res = store_load_document(store, &ret_start->kept, &error);
	if (res == -ENOENT) {
		ret_start->source_hash = options->source_hash ? options->source_hash : "";
		res = identify(ret_start->config, NULL);
	} else if (res < 0) {
		log_error("control", "%s", error.text);
	} else {
		res = kept_settle(store, options, ret_start);
	}
	if (res == 0) {
		new_memory_log(ret_start->config);
	} else {
		config_free(ret_start->config);
		json_decref(ret_start->kept);
		free(ret_start->diff);
		*ret_start = (struct start){0};
	}
	return res;
}
