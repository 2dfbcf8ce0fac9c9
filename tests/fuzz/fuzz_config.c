/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration reader on any bytes: it accepts or complains, never both, and what it accepts
 * keeps the order that a snapshot needs. Not exposed to the network; a person's typing is enough.
 */
#include "base/check.h"
#include "control/config.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	static struct config_errors errors;
	struct config *config = NULL;
	int res;

	errors.count = 0;
	res = config_load_text((const char *)data, len_bytes, &config, &errors);
	CHECK((res == 0) == (config != NULL));
	CHECK((res == 0) == (errors.count == 0));
	if (!config)
		return 0;
	for (unsigned i = 1; i < config->subsystem_count; i++)
		CHECK(strcmp(config->subsystems[i - 1].nqn, config->subsystems[i].nqn) < 0);
	for (unsigned i = 1; i < config->port_count; i++)
		CHECK(config->ports[i - 1].id < config->ports[i].id);
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		for (unsigned n = 0; n < config->subsystems[i].ns_count; n++) {
			CHECK(config->subsystems[i].namespaces[n].media);
			CHECK(!uuid_is_nil(&config->subsystems[i].namespaces[n].uuid));
		}
	}
	config_free(config);
	return 0;
}
