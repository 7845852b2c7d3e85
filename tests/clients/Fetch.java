import java.io.InputStream;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Prints what a URL answers, by the client that the first word names: "client" (java.net.http) or "connection" (as wrappers of build tools do). */
public final class Fetch {
	public static void main(String[] words) throws Exception {
		if (words[0].equals("client")) {
			HttpResponse<String> answer = HttpClient.newHttpClient().send(
				HttpRequest.newBuilder(URI.create(words[1])).build(), HttpResponse.BodyHandlers.ofString());
			System.out.print(answer.body());
			System.exit(answer.statusCode() == 200 ? 0 : 1);
		}
		try (InputStream body = new URL(words[1]).openStream()) {
			System.out.print(new String(body.readAllBytes()));
		}
	}
}
