/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration documents and parts of them, as strings, and helpers that load them and check the
 * errors. For one test program.
 */
#ifndef WEFT_TESTS_CONFIG_TEXT_H
#define WEFT_TESTS_CONFIG_TEXT_H

#include "config/config.h"

#include "tap.h"

#include <errno.h>

static struct config_errors errors;

static struct config *load(const char *text)
{
	struct config *config = NULL;
	int res;

	memset(&errors, 0, sizeof(errors));
	res = config_load_text(text, strlen(text), &config, &errors);
	if (res == 0 && config_identify(config, NULL, &errors) < 0) {
		config_free(config);
		config = NULL;
		res = -EINVAL;
	}
	EXPECT_EQ(config == NULL, res < 0);
	EXPECT_EQ(config == NULL, errors.count > 0);
	return config;
}

static struct config *load_good(const char *text)
{
	struct config *config = load(text);

	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		printf("# unexpected: %s\n", errors.texts[i]);
	EXPECT(config != NULL);
	return config;
}

static bool says(const char *wanted)
{
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++) {
		if (strstr(errors.texts[i], wanted))
			return true;
	}
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		printf("# said: %s\n", errors.texts[i]);
	return false;
}

#endif
