/** The commands of chats: `chat`, `chats ls` and `chats messages`. */
import { type Command, Option } from 'commander';
import { QUEUE_POLICIES } from '../../workflows/protocol/chat.ts';
import { pageSize, userIdText } from './arguments.ts';
import type { ChatCommandOptions } from './chat/chat.ts';
import { type ChatListOptions, printChats, printMessages } from './chats.ts';
import type { Cli } from './cli.ts';
import type { CliEnvironment, PageOptions } from './environment.ts';

const DEFAULT_CHAT = 'default';

/** Adds them. */
export function addChats(cli: Cli, environment: CliEnvironment): void {
  const { program, command, storeCommand, run } = cli;
  command(program, 'chat [agent]', 'Chat with an agent. Piped input is one message, whose answer is printed.')
    .addOption(
      new Option('--chat <id>', 'which chat with it: each has a memory of its own')
        .argParser(userIdText)
        .default(DEFAULT_CHAT),
    )
    .option('--profile <name>', 'agent definition of the app (default: that of the agent, or the one of its name)')
    .option('--as <name>', 'who writes (default: the user of this machine)', userIdText)
    .addOption(
      new Option(
        '--policy <policy>',
        'what becomes of messages while a turn is at work (default: as the profile says)',
      ).choices(QUEUE_POLICIES),
    )
    .action((agent: string | undefined, options: ChatCommandOptions) =>
      run(options, async () => {
        const { chatCommand } = await import('./chat/chat.ts');
        return chatCommand(environment, agent, options);
      }),
    );
  const listed = (of: Command): Command =>
    of
      .option('--agent <agent>', 'only of this agent')
      .option('--limit <number>', 'so many at most (default: 100)', pageSize)
      .option('--after <place>', 'those behind this one, as the page before has said')
      .action((options: ChatListOptions) => run(options, () => printChats(environment, options)));
  const chats = listed(storeCommand(program, 'chats', 'List chats; the commands below it say more.'));
  listed(storeCommand(chats, 'ls', 'List chats, by their agents.'));
  storeCommand(chats, 'messages <agent> <chat>', 'List what was said in a chat, each message with how far it is.')
    .option('--limit <number>', 'so many at most (default: 100)', pageSize)
    .option('--after <place>', 'those behind this one, as the page before has said')
    .action((agent: string, chat: string, options: PageOptions) =>
      run(options, () => printMessages(environment, agent, chat, options)),
    );
}
