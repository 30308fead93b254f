/**
 * Loaded into services by `--import`: notes which of them ask for a module of OpenTelemetry, a line each, in the file that is named here. Its API
 * alone does nothing, and prom-client asks for it.
 */
import { appendFileSync } from "node:fs";
import { registerHooks } from "node:module";

const file = process.env["TEST_MODULES_FILE"];
if (file !== undefined)
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier.startsWith("@opentelemetry/") && specifier !== "@opentelemetry/api")
        appendFileSync(file, `${process.pid} ${specifier}\n`);
      return next(specifier, context);
    },
  });
