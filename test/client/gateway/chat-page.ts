/** A chat front end as its authors write it: `useChat` of the AI SDK before a gateway. It is bundled by a test. */
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from 'ai';
import { createElement as h, type ReactNode, useState } from 'react';
import { createRoot } from 'react-dom/client';

const { location, document } = globalThis as unknown as {
  readonly location: { readonly search: string };
  readonly document: { readonly body: Element };
};
const asked = new URLSearchParams(location.search);
const [agent, profile, token] = ['agent', 'profile', 'token'].map((name) => asked.get(name) ?? '');

const transport = new DefaultChatTransport({
  api: `/gateway/v1/agents/${agent}/chat`,
  headers: { authorization: `Bearer ${token}` },
  body: { profile },
});

type Answer = (answer: { id: string; approved: boolean; reason?: string }) => void | PromiseLike<void>;

function part(each: UIMessage['parts'][number], answer: Answer): ReactNode {
  if (each.type === 'text') return h('span', { className: 'text' }, each.text);
  if (!each.type.startsWith('tool-') || !('toolCallId' in each)) return null;
  const { type, state, input } = each;
  const shown = [type, state, JSON.stringify(input), 'output' in each ? JSON.stringify(each.output) : ''].join(' ');
  if (state !== 'approval-requested') return h('p', { className: 'call' }, shown);
  const { id } = each.approval;
  const button = (name: string, approved: boolean) =>
    h('button', { type: 'button', onClick: () => void answer({ id, approved, reason: `${name} in the chat` }) }, name);
  return h('p', { className: 'call' }, shown, button('Approve', true), button('Deny', false));
}

function Chat(): ReactNode {
  const [input, setInput] = useState('');
  const { messages, sendMessage, status, error, addToolApprovalResponse, regenerate, stop } = useChat({
    id: `chat-${agent}`,
    transport,
    resume: asked.has('resume'),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const send = (event: { preventDefault(): void }) => {
    event.preventDefault();
    void sendMessage({ text: input });
    setInput('');
  };
  const change = (event: { target: unknown }) => setInput((event.target as { value: string }).value);
  return h(
    'main',
    null,
    messages.map(({ id, role, parts }) =>
      h(
        'div',
        { key: id, className: role },
        parts.map((each, index) => h('div', { key: `${id}.${index}` }, part(each, addToolApprovalResponse))),
      ),
    ),
    h('form', { onSubmit: send }, h('input', { 'aria-label': 'Message', value: input, onChange: change })),
    h('button', { type: 'button', onClick: () => void regenerate() }, 'Again'),
    h('button', { type: 'button', onClick: () => void stop() }, 'Leave'),
    h('output', null, status),
    h('p', { role: 'alert' }, error?.message ?? ''),
  );
}

createRoot(document.body).render(h(Chat));
