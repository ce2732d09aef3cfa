// talk has a conversation in each way in which a client can have one, all at the same time, and
// returns the answers. In each of them all prompts are asked one after the other, with the history
// as the client keeps it. MARK in a prompt is replaced by the name of the conversation.
export function talk(client, talks, baseURL, prompts) {
  return Promise.all(
    Object.entries(talks).map(async ([way, begin]) => {
      const ask = begin(baseURL);
      const answers = [];
      for (const prompt of prompts) answers.push(await ask(prompt.replaceAll('MARK', `${client}, ${way}`)));
      return { way, answers };
    }),
  );
}
