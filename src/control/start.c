/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses what a target starts with (see control/start.h) and names sources by their hash: SHA-256
 * of the document with sorted keys, so that spaces and order do not count, or of the flags as text.
 * The document is hashed as it was written, without the defaults that this version would add, so
 * that another version finds the same hash.
 *
 * Main thread, before the reactors run; a reload reads files on the control reactor, the same
 * thread.
 */
#include "control/start.h"

#include "base/log.h"
#include "control/config_parse.h"

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
		*ret_document = json_load_callback(
			reading_more, &reading, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
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
		return -EINVAL;
	}
	text = json_dumps(*ret_document, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
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
	/* Only when given: the hash of flags without rights is that of earlier versions. */
	if (flags->rights_count > 0)
		json_object_set_new(root, "rights", texts_of(flags->rights, flags->rights_count));
	text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	text_hash(text ? text : "", text ? strlen(text) : 0, ret_hash);
	free(text);
	json_decref(root);
}

/* ---- the choice -------------------------------------------------------------------------------
 */

static void errors_log(const char *what, const struct config_errors *errors)
{
	unsigned kept = errors->count < CONFIG_ERRORS_MAX ? errors->count : CONFIG_ERRORS_MAX;

	for (unsigned i = 0; i < kept; i++)
		log_error("control", "%s: %s", what, errors->texts[i]);
}

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

/* A path that begins in another folder leads elsewhere: to no file, or to a new and empty one. */
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
				"%s, namespace %u (%s): the kept state has this path as seen from "
				"%s; start there, or begin anew with --reset",
				subsystem->nqn, subsystem->namespaces[n].nsid,
				subsystem->namespaces[n].media, store_folder(store));
			return -ENOENT;
		}
	}
	return 0;
}

/* One line: how the source differs from what it replaces. `old` NULL: that cannot be read. */
static void replacement_log(const struct config *old, const struct config *config)
{
	char *diff = old ? config_diff(old, config) : NULL;
	unsigned lines = 0;

	for (const char *at = diff; at && *at; at++)
		lines += *at == '\n';
	if (!diff)
		log_warn("control", "another source: it replaces the kept state");
	else if (diff[0] == 0)
		log_info("control", "another source: it says what is kept already");
	else
		log_warn("control",
			 "another source: it replaces the kept state (%u difference%s, the first: "
			 "%.*s)",
			 lines, lines == 1 ? "" : "s", (int)strcspn(diff, "\n"), diff);
	free(diff);
}

/* Memory is empty now: hosts must not take it for what they knew. */
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

/* Of what the start begins with; `old` is what the store has, or NULL. */
static int start_identify(struct start *start, const struct config *old)
{
	struct config_errors errors = {.count = 0};
	int res = config_identify(start->config, old, &errors);

	if (res < 0)
		errors_log("the configuration", &errors);
	else
		new_memory_log(start->config);
	return res;
}

/* The source replaces what is kept, but namespaces that both have stay who they are. */
static int source_take(struct start *start)
{
	struct config_errors errors = {.count = 0};
	struct config *old = NULL;
	int res;

	if (start->kept)
		kept_load(start->kept, &old, &errors);
	res = start_identify(start, old);
	if (res == 0 && start->kept)
		replacement_log(old, start->config);
	config_free(old);
	return res;
}

static bool is_kept_wanted(const struct store *store, const struct daemon_options *options)
{
	if (options->forgets_kept)
		return false;
	return !options->source_hash || strcmp(options->source_hash, store_source_hash(store)) == 0;
}

int start_choose(struct store *store, const struct daemon_options *options, struct start *ret_start)
{
	struct config_errors errors = {.count = 0};
	struct store_error error;
	int res;

	*ret_start = (struct start){.config = options->taken_config};
	res = store_load_document(store, &ret_start->kept, &error);
	if (res < 0 && res != -ENOENT) {
		log_error("control", "%s", error.text);
		goto fail;
	}
	if (!ret_start->kept || !is_kept_wanted(store, options)) {
		ret_start->source_hash = options->source_hash ? options->source_hash : "";
		res = source_take(ret_start);
		if (res < 0)
			goto fail;
		return 0;
	}
	config_free(ret_start->config);
	res = kept_load(ret_start->kept, &ret_start->config, &errors);
	if (res == 0 && folder_check(store, ret_start->config) < 0) {
		res = -ENOENT;
		goto fail;
	}
	if (res == 0)
		res = start_identify(ret_start, NULL);
	if (res == 0) {
		log_info("control", "starting with the kept state, generation %llu",
			 (unsigned long long)store_generation(store));
		return 0;
	}
	errors_log("the kept state", &errors);
	log_error("control", "the kept state cannot be used; --reset starts with the file or the "
			     "flags instead");
fail:
	config_free(ret_start->config);
	json_decref(ret_start->kept);
	*ret_start = (struct start){0};
	return res;
}
