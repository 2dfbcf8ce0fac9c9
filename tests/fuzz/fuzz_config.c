/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the configuration reader. Checked: it either accepts a document or reports errors; an
 * accepted document keeps the order that a snapshot needs, and reads back the same when written.
 * The same bytes are also imported as a document of the kernel target's tool: the result is one of
 * ours, or an error. Two documents with a byte 1Eh between them are a change, tried in both
 * directions: allowed, or refused with a reason. The REST API accepts documents from every
 * authorized client.
 */
#include "base/check.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

/* Any JSON value, also one that is no nvmetcli document. */
static void import_try(const uint8_t *data, size_t len_bytes)
{
	static struct config_errors errors, notes;
	json_t *saved = json_loadb((const char *)data, len_bytes,
				   JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
	json_t *document;

	if (!saved)
		return;
	errors.count = 0;
	notes.count = 0;
	config_end_power_cycle(saved);
	document = config_import_nvmetcli(saved, &errors, &notes);
	CHECK((document != NULL) == (errors.count == 0));
	json_decref(document);
	json_decref(saved);
}

static void round_trip(const struct config *config)
{
	static struct config_errors errors;
	json_t *first = config_to_json(config), *second;
	struct config *again = NULL;
	char *diff;

	errors.count = 0;
	CHECK(first && config_load_json(first, &again, &errors) == 0);
	second = config_to_json(again);
	CHECK(json_equal(first, second));
	diff = config_diff(config, again);
	CHECK(diff && diff[0] == 0);
	CHECK(config_check_transition(config, again, &errors) == 0);
	free(diff);
	json_decref(first);
	json_decref(second);
	config_free(again);
}

/* Checks the change, and that config_diff is empty only for equal documents. */
static void transition_try(const struct config *from, const struct config *to)
{
	static struct config_errors errors;
	json_t *before = config_to_json(from), *after = config_to_json(to);
	char *diff = config_diff(from, to);
	int res;

	errors.count = 0;
	CHECK(before && after && diff);
	CHECK((diff[0] == 0) == (json_equal(before, after) != 0));
	res = config_check_transition(from, to, &errors);
	CHECK((res == 0) == (errors.count == 0));
	free(diff);
	json_decref(before);
	json_decref(after);
}

static void two_try(const uint8_t *data, size_t len_bytes, size_t first_bytes)
{
	static struct config_errors errors;
	struct config *first = NULL, *second = NULL;

	errors.count = 0;
	if (config_load_text((const char *)data, first_bytes, &first, &errors) == 0 &&
	    config_load_text((const char *)data + first_bytes + 1, len_bytes - first_bytes - 1,
			     &second, &errors) == 0 &&
	    config_identify(first, NULL, &errors) == 0 &&
	    config_identify(second, first, &errors) == 0) {
		transition_try(first, second);
		transition_try(second, first);
	}
	config_free(first);
	config_free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	const uint8_t *between = memchr(data, 0x1e, len_bytes);
	static struct config_errors errors;
	struct config *config = NULL;
	int res;

	if (between) {
		two_try(data, len_bytes, (size_t)(between - data));
		return 0;
	}
	errors.count = 0;
	res = config_load_text((const char *)data, len_bytes, &config, &errors);
	CHECK((res == 0) == (config != NULL));
	CHECK((res == 0) == (errors.count == 0));
	import_try(data, len_bytes);
	if (!config)
		return 0;
	for (unsigned i = 1; i < config->subsystem_count; i++)
		CHECK(strcmp(config->subsystems[i - 1].nqn, config->subsystems[i].nqn) < 0);
	for (unsigned i = 1; i < config->port_count; i++)
		CHECK(config->ports[i - 1].id < config->ports[i].id);
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		for (unsigned n = 0; n < config->subsystems[i].ns_count; n++) {
			CHECK(config->subsystems[i].namespaces[n].media);
		}
	}
	round_trip(config);
	if (config_identify(config, NULL, &errors) == 0)
		round_trip(config);
	else
		CHECK(errors.count > 0);
	config_free(config);
	return 0;
}
