/** Bundling the workflow code, for a worker that runs from sources and for the build of the package. */
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type BundleOptions,
  bundleWorkflowCode,
  DefaultLogger,
  type LogLevel,
  type WorkflowBundleWithSourceMap,
} from '@temporalio/worker';

/** Bundled workflow code: its text, or the path of the file that holds it. */
export type WorkflowCode = { readonly code: string } | { readonly codePath: string };

/** The path of a workflow module: the source where this file runs from source, the emitted file where it runs from the package. */
const workflowFile = (name: string): string =>
  fileURLToPath(new URL(`../workflows/${name}${extname(import.meta.url)}`, import.meta.url));

/** The path of the module that exports the workflows. */
export const workflowsPath = workflowFile('index');
/** The path of the module that exports the payload converter of the workflow sandbox. */
export const payloadConverterPath = workflowFile('payload-converter');

type WebpackConfig = Parameters<NonNullable<BundleOptions['webpackConfigHook']>>[0];

/** Bundles the workflow code as every worker runs it. `options` take the place of the bundler's options that are set here. */
export const bundleWorkflows = (
  level: LogLevel = 'WARN',
  options: Partial<BundleOptions> = {},
): Promise<WorkflowBundleWithSourceMap> =>
  bundleWorkflowCode({
    workflowsPath,
    payloadConverterPath,
    preloadModules: [workflowFile('preload')],
    logger: new DefaultLogger(level),
    // With this source map stack traces keep their files and lines; the text of every source would double the bundle.
    webpackConfigHook: (config) => ({
      ...asWritten(config),
      devtool: 'inline-nosources-source-map',
      // Where the code was bundled says nothing to whom it was shipped to.
      output: { ...config.output, devtoolModuleFilenameTemplate: '[resource-path]' },
    }),
    ...options,
  });

/**
 * The bundler's configuration without the compiling down of what Node has built in: by default each private field and each spread becomes a
 * call of a helper, as for a platform of 2017.
 */
function asWritten(config: WebpackConfig): WebpackConfig {
  const rules = config.module?.rules?.map((rule) => {
    if (!rule || rule === '...') return rule;
    const { use } = rule;
    if (!use || typeof use !== 'object' || !('options' in use)) return rule;
    const { options } = use;
    if (typeof options !== 'object' || !options.jsc) return rule;
    return { ...rule, use: { ...use, options: { ...options, jsc: { ...options.jsc, target: 'es2024' } } } };
  });
  return rules ? { ...config, module: { ...config.module, rules } } : config;
}
