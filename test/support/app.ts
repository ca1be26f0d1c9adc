/** An app with one agent, `tester` unless named otherwise. */
import { type App, defineAgent, defineApp } from '../../activities/app/app.ts';
import type { Tool } from '../../activities/tool.ts';
import type { ProfileInput } from '../../workflows/protocol/profile.ts';

export const testApp = (tools: readonly Tool[], agent: Partial<ProfileInput> = {}): App =>
  defineApp({ agents: [defineAgent({ name: 'tester', ...agent })], tools });
